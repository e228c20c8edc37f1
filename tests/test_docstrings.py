"""The examples in docstrings run, and say what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "whileback",
        "whileback.api",
        "whileback.caffe2",
        "whileback.caffe2.convert",
        "whileback.caffe2.gradients.control_gradient",
        "whileback.caffe2.gradients.net_gradient",
        "whileback.caffe2.net_builder",
        "whileback.caffe2.workspace",
        "whileback.derivatives",
        "whileback.engines.base",
        "whileback.errors",
        "whileback.formats.caffe2.arguments",
        "whileback.graph.names",
        "whileback.jax",
        "whileback.trainer.batches",
        "whileback.trainer.run",
        "whileback.trainer.trainer",
        "whileback.training.custom",
        "whileback.training.evaluating",
        "whileback.training.exporting",
        "whileback.training.gradients",
        "whileback.training.groups",
        "whileback.training.interface",
        "whileback.training.parameters",
        "whileback.training.schedules",
        "whileback.training.step",
    ],
)
def test_examples(module: str) -> None:
    import onnx

    tested = importlib.import_module(module)
    result = doctest.testmod(tested, extraglobs={"onnx": onnx})
    assert result.attempted > 0
    assert result.failed == 0
