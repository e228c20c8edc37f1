"""Exported models are the originals, with other numbers in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import parse

import whileback
from whileback import training
from whileback.errors import ArgumentError, UnsupportedError

# Weights in every place that a model has for them, one name twice, in an old opset.
PLACES = """<ir_version: 8, opset_import: ["" : 13, "f" : 1]>
places (float[N,2] x, bool c) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> {
    a = MatMul(x, w)
    k = Constant<value_floats = [1.0, 2.0]>()
    b = Add(a, k)
    d = f.scale(b)
    y = If(c) <then_branch = t () => (float[N,2] p) <float[2] w = {5, 6}> { p = Mul(d, w) },
               else_branch = e () => (float[N,2] q) {
                   z = Constant<value = float[2] {1, 2}>()
                   q = Add(d, z)
               }>
}
<domain: "f", opset_import: ["" : 13]>
scale (v) => (s) { g = Constant<value = float[2] {2, 3}>() s = Mul(v, g) }
"""


def trained(model: ir.Model, **batch: Any) -> training.Trainer:
    step = training.step(model, "mse", "adam")
    trainer = training.Trainer(step, evaluation=training.evaluation(model, "mse", step))
    trainer.step(batch, 0.1)
    return trainer


def test_every_place() -> None:
    model = parse(PLACES)
    before = ir.to_proto(model).SerializeToString()
    x, label = np.array([[1, 2], [3, 4], [5, 6]], "f"), np.zeros((3, 2), "f")
    trainer = trained(model, x=x, c=True, label=label)
    parameters = trainer.parameters()
    assert set(parameters) == {"w", "k", "g", "If/then_branch/w", "If/else_branch/z"}
    exported = training.export(model, parameters)
    assert ir.to_proto(model).SerializeToString() == before
    for c in (True, False):
        found = whileback.compile(exported)(x=x, c=c)["y"]
        outputs = trainer.evaluate({"x": x, "c": c, "label": label}).outputs
        np.testing.assert_allclose(found, outputs["y"], rtol=1e-6)
    assert without_numbers(exported) == without_numbers(model)


def without_numbers(model: ir.Model) -> str:
    """Return the text of a model without what its tensors hold."""
    text = onnx.printer.to_text(ir.to_proto(model))
    return re.sub(r"<value[^>]*>|= *\{[^}]*\}", "", text)


TWICE = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
twice (float[N,2] x) => (float[N,2] y) { a = f.scale(x) y = f.scale(a) }
<domain: "f", opset_import: ["" : 21]>
scale (v) => (s) { g = Constant<value = float[2] {2, 3}>() s = Mul(v, g) }
"""


def test_a_constant_of_a_function_that_is_called_twice() -> None:
    trainer = trained(parse(TWICE), x=[[1.0, 2.0]], label=[[0.0, 0.0]])
    parameters = trainer.parameters()
    first, second = parameters
    with pytest.raises(UnsupportedError) as caught:
        training.export(parse(TWICE), {first: np.ones(2, "f"), second: np.zeros(2, "f")})
    assert str(caught.value) == (
        f"'{first}' and '{second}' are one constant of a function that model 'twice' calls more "
        "than once, and were trained apart. Make it an input of the function, or freeze it with "
        "trainable=."
    )


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    """What is frozen is not read: its file may be gone by then."""
    text = """(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] b = {0, 0}> {
        z = MatMul(x, w) y = Add(z, b)
    }"""
    ir.save(parse(text), tmp_path / "m.onnx", external_data="d", size_threshold_bytes=0)
    model = whileback.load(tmp_path / "m.onnx")
    (tmp_path / "d").rename(tmp_path / "gone")
    exported = training.export(model, {"b": np.array([7, 8], "f")})
    (tmp_path / "gone").rename(tmp_path / "d")
    size = (tmp_path / "d").stat().st_size
    whileback.save(exported, tmp_path / "tuned.onnx")
    assert (tmp_path / "d").stat().st_size == size
    again = whileback.load(tmp_path / "tuned.onnx")
    assert isinstance(again.graph.initializers["w"].const_value, ir.ExternalTensor)
    found = whileback.compile(tmp_path / "tuned.onnx")(x=[[1.0, 1.0]])["y"]
    assert found.tolist() == [[11, 14]]


def test_averages() -> None:
    model = parse("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    step = training.step(model, "mse", "sgd", average=0.5)
    trainer = training.Trainer(step, evaluation=training.evaluation(model, "mse", step))
    batch = {"x": [1.0, 1.0], "label": [0.0, 0.0]}
    for _ in range(3):
        trainer.step(batch, 0.1)
    average = trainer.parameters(average=True)
    assert np.array_equal(average["w"], trainer.state()["w_average"])
    assert np.array_equal(trainer.evaluate(batch, average=True).outputs["y"], average["w"])
    exported = training.export(model, average)
    assert np.array_equal(exported.graph.initializers["w"].const_value.numpy(), average["w"])


@pytest.mark.parametrize("average", [False, True])
def test_a_step_with_one_vector(average: bool, tmp_path: Path) -> None:
    """Comes back as the parameters of the model, from a trainer and from a checkpoint."""
    model = parse("""(float[N,2] x) => (float[N,2] y)
        <float[2,2] w = {1, 2, 3, 4}, float[2] b = {0, 0}> { z = MatMul(x, w) y = Add(z, b) }""")
    step = training.step(model, "mse", "adam", flat=True, average=0.5)
    trainer = training.Trainer(step, evaluation=training.evaluation(model, "mse", step))
    batch = {"x": np.ones((3, 2), "f"), "label": np.zeros((3, 2), "f")}
    for _ in range(3):
        trainer.step(batch, 0.1)
    trainer.save(tmp_path / "c")
    checkpoint = training.read_checkpoint(tmp_path / "c")
    for parameters in (trainer.parameters(average), checkpoint.parameters(average)):
        assert {name: array.shape for name, array in parameters.items()} == {"w": (2, 2), "b": (2,)}
        found = whileback.compile(training.export(model, parameters))(x=batch["x"])["y"]
        assert np.array_equal(found, trainer.evaluate(batch, average).outputs["y"])


def test_errors() -> None:
    model = parse("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    with pytest.raises(ArgumentError) as caught:
        training.export(model, {"v": np.zeros(2, "f")})
    assert str(caught.value) == "Model 'model' holds no tensor 'v'; there are 1: 'w'"
    for array in (np.zeros(3, "f"), np.zeros(2)):
        with pytest.raises(ArgumentError) as caught:
            training.export(model, {"w": array})
        assert str(caught.value) == (
            f"'w' is float32[2] in the model, but {array.dtype}{list(array.shape)} here. Give what "
            "a step of this model has trained."
        )
    trainer = trained(model, x=[1.0, 1.0], label=[0.0, 0.0])
    with pytest.raises(ArgumentError) as caught:
        trainer.parameters(average=True)
    assert str(caught.value) == (
        "The step keeps no moving averages. Make it with average=0.999, or take the parameters "
        "themselves."
    )
