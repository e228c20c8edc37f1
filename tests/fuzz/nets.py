"""One random net of Caffe2's: its own gradient is that of the model that it is read as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tests.caffe2.gradients.random_nets import RandomNet
from tests.caffe2.gradients.test_random_nets import FLOATS, given, numbers
from tests.fuzz.outcome import Trial

from whileback import caffe2, compile, names, vjp
from whileback.caffe2.reading import TensorSpec, read
from whileback.formats.caffe2.caffe2_pb2 import NetDef

__all__ = ["judge_net"]

LARGEST = 1000


def judge_net(trial: Trial, number: int, folder: Path) -> None:
    """Compare the gradients of a net, run as nets are, with those of its model."""
    made = RandomNet(number)
    (folder / "net.pbtxt").write_text(text_format.MessageToString(made.net))
    feeds = {
        name: array.astype(np.float32 if name in FLOATS else np.int32)
        for name, array in given(number).items()
    }
    y = made.random.choice(sorted(made.sure))
    cotangent = numbers(f"seeds {number}", "seed")["seed"].astype(np.float32)
    net, gradients = trial.attempt(
        "add_gradient_operators", caffe2.add_gradient_operators, made.net, {y: "y_seed"}, FLOATS
    ) or (None, {})
    model, blob = trial.attempt("vjp", _differentiated, made.net, feeds, y) or (None, "")
    if net is None or model is None:
        return
    own = trial.attempt("net", _run_net, net, feeds | {"y_seed": cotangent}, gradients)
    other = trial.attempt("model", _run_model, model, feeds, blob, cotangent)
    if own is not None and other is not None:
        trial.attempt("compare", _compare, trial, own, other)


def _differentiated(net: NetDef, feeds: dict[str, Any], y: str) -> tuple[Any, str]:
    specs = {name: TensorSpec.of(array) for name, array in feeds.items()}
    reading = read(net, specs, outputs=[y], keep_unused_inputs=True)
    return vjp(reading.model, [reading.outputs[y]], FLOATS), reading.outputs[y]


def _run_net(net: NetDef, feeds: dict[str, Any], gradients: Any) -> dict[str, Any]:
    ws = caffe2.Workspace()
    for name, array in feeds.items():
        ws.feed(name, array)
    ws.run(net)
    return {name: ws.fetch(str(gradients[name])) for name in FLOATS if name in gradients}


def _run_model(
    model: Any, feeds: dict[str, Any], y: str, cotangent: np.ndarray
) -> dict[str, np.ndarray]:
    known, compiled = names(model), compile(model, threads=1)
    everything = feeds | {known[y]: cotangent}
    found = compiled({name: everything[name] for name in compiled.inputs})
    return {name: found[known[name]] for name in FLOATS}


def _compare(trial: Trial, own: dict[str, Any], other: dict[str, Any]) -> None:
    largest = max(
        (np.max(np.abs(a), initial=0) for a in (*own.values(), *other.values())), default=0
    )
    if not largest < LARGEST:
        trial.outcome.remark = "its numbers grow too large"
        return
    for name, value in other.items():
        np.testing.assert_allclose(
            np.reshape(own.get(name, 0.0), np.shape(value) if name in own else ()),
            value, rtol=1e-3, atol=1e-4 * max(1.0, float(largest)), err_msg=name,
        )  # fmt: skip
