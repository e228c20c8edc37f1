"""Every public function refuses arguments of a wrong type by an error of ours, not by Python's."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import whileback
from whileback import training
from whileback.errors import ArgumentError, WhilebackError

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
NET = ir.from_onnx_text(
    HEADER
    + """net (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 0, 0, 1}> { y = MatMul (x, w) }"""
)
SCALAR = ir.from_onnx_text(HEADER + "f (float x) => (float y) { y = Mul (x, x) }")
DERIVATIVE: dict[str, Any] = {"model": SCALAR, "of": "y", "wrt": "x"}
FEEDS = {"x": np.float32(1)}
STEP = training.step(NET, "mse", "sgd")
LOSS = ir.from_onnx_text(
    HEADER + "f (float[N,2] y, float[N,2] z) => (float l) {"
    " d = Sub (y, z) l = ReduceSum <keepdims = 0> (d) }"
)
LOSSES = "binary_cross_entropy cosine cross_entropy huber kl l1 mse nll output".split()
OPTIMIZERS = "adadelta adafactor adagrad adam adamax adamw lion nadam radam rmsprop sgd".split()


def made(kind: str, maker: Callable[..., Any], **settings: Any) -> ir.Model:
    """Return a step with a loss or an optimizer of these settings."""
    usual = {"loss": "mse", "optimizer": "sgd"}
    return training.step(NET, **{**usual, kind: maker(**settings)})


# What a call needs that is right.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **{
        name: (getattr(whileback, name), DERIVATIVE)
        for name in ("gradient", "vjp", "jvp", "hvp", "jacobian", "hessian", "check")
    },
    "compile": (whileback.compile, {"model": SCALAR}),
    "names": (whileback.names, {"model": SCALAR}),
    "show": (whileback.show, {"model": SCALAR}),
    "to_html": (whileback.to_html, {"model": SCALAR}),
    "diff": (whileback.diff, {"a": SCALAR, "b": SCALAR}),
    "profile": (whileback.profile, {"model": SCALAR, "inputs": FEEDS, "runs": 1}),
    "load": (whileback.load, {"path": "m.onnx"}),
    "save": (whileback.save, {"model": SCALAR, "path": "m.onnx", "overwrite": True}),
    "implicit": (whileback.implicit, {"carry": "z"}),
    "budget": (whileback.budget, {"frames": 10}),
    "training.step": (training.step, {"model": NET, "loss": "mse", "optimizer": "sgd"}),
    "training.gradients": (training.gradients, {"model": NET, "loss": "mse"}),
    "training.evaluation": (training.evaluation, {"model": NET, "loss": "mse", "step": STEP}),
    "training.Trainer": (training.Trainer, {"step": STEP}),
    "training.Run": (
        training.Run,
        {
            **{"trainer": training.Trainer(STEP), "data": [], "folder": "run"},
            **{"epochs": 1, "learning_rate": 0.1, "tensorboard": False},
        },
    ),
    "training.Group": (training.Group, {"patterns": "w"}),
    "training.Precision": (training.Precision, {}),
    "training.lora": (training.lora, {"model": NET}),
    "training.merge": (training.merge, {"model": training.lora(NET)}),
    "training.export": (training.export, {"model": NET, "tensors": {"w": np.ones((2, 2))}}),
    "training.interface": (training.interface, {"model": STEP}),
    "training.read_data": (training.read_data, {"where": "d.npz", "step": STEP}),
    "training.read_parameters": (training.read_parameters, {"path": "p.safetensors"}),
    "training.read_checkpoint": (training.read_checkpoint, {"path": "p.safetensors"}),
    "training.schedule_named": (training.schedule_named, {"name": "cosine", "steps": 10}),
    "training.accuracy": (training.accuracy, {"output": "y"}),
    "training.custom": (training.custom, {"model": LOSS}),
    "training.write_artifacts": (
        training.write_artifacts,
        {"step": STEP, "evaluation": STEP, "folder": "a", "overwrite": True},
    ),
    **{f"training.{name}": (partial(made, "loss", getattr(training, name)), {}) for name in LOSSES},
    **{
        f"training.{name}": (partial(made, "optimizer", getattr(training, name)), {})
        for name in OPTIMIZERS
    },
}
WRONG = [3, -1, 2.5, float("nan"), "no such", b"x", True, None, [3], [None], {"a": 3}, {3: "x"}, ir]


def cases() -> Iterator[Any]:
    for name, (function, _) in CALLS.items():
        whole = function.args[1] if isinstance(function, partial) else function
        for parameter in inspect.signature(whole).parameters.values():
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                yield pytest.param(name, parameter.name, id=f"{name}-{parameter.name}")


@pytest.mark.filterwarnings("ignore::whileback.errors.WhilebackWarning")
@pytest.mark.parametrize(("name", "argument"), list(cases()))
def test_wrong_types(name: str, argument: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    whileback.save(SCALAR, "m.onnx")
    function, right = CALLS[name]
    for wrong in WRONG:
        try:
            function(**{**right, argument: wrong})
        except WhilebackError:
            pass
        except Exception as error:
            pytest.fail(f"{name}({argument}={wrong!r}): {type(error).__name__}: {error}", False)


STEPPED = {"model": NET, "loss": "mse", "optimizer": "sgd"}


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (training.step, {**STEPPED, "trainable": 3}, "a name or a list of which each is a name"),
        (training.step, {**STEPPED, "clip_norm": "1"}, "a number"),
        (training.adam, {"betas": 0.9}, "a list of 2 numbers, such as [0.5, 0.5]"),
        (whileback.gradient, {**DERIVATIVE, "opset": "21"}, "a whole number"),
        (whileback.show, {"model": SCALAR, "everything": 1}, "true or false"),
        (whileback.profile, {"model": SCALAR, "inputs": [1]}, "a mapping from a name to anything"),
        (training.Trainer, {"step": STEP, "evaluation": 3}, "a Model"),
        (training.Group, {"patterns": "w", "optimizer": 3}, "a name or an Optimizer"),
    ],
)
def test_messages(function: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    """The last argument is the wrong one."""
    name, wrong = list(arguments.items())[-1]
    with pytest.raises(ArgumentError) as caught:
        function(**arguments)
    assert str(caught.value) == f"{name}={wrong!r} is not {message}."
