"""Calls that raise the errors of which docs/errors.md tells, one for each row there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnx_ir as ir
from tests.judge import parse

import whileback
from whileback import caffe2, training
from whileback.cli.arrays import read_inputs

X = np.ones(2, np.float32)
MODEL = """(float[2] x, int64 n) => (float[2] y, float loss) <float[2] w = {1, 2}> {
    y = Loop(n, "", x) <body = trip (int64 i, bool go, float[2] v) => (bool go_on, float[2] next) {
        next = Mul(v, w)
        go_on = Identity(go)
    }>
    loss = ReduceSum<keepdims = 0>(y)
}"""


def model() -> ir.Model:
    return parse(MODEL)


def gradient(text: str, of: str = "y", wrt: str = "x", **options: Any) -> ir.Model:
    return whileback.gradient(parse(text), of, wrt, reduce="sum", **options)


def run(text: str, **inputs: Any) -> None:
    whileback.compile(parse(text))(**inputs)


def step(loss: str = "mse", optimizer: str = "sgd", **options: Any) -> ir.Model:
    text = "(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }"
    return training.step(parse(text), loss=loss, optimizer=optimizer, **options)


def write(name: str, content: bytes = b"") -> str:
    Path(name).write_bytes(content)
    return name


def without(module: str, call: Callable[[], Any]) -> Any:
    """Call as if a package was missing, also where the engine that needs it has been imported."""
    with patch.dict(sys.modules, {module: None}):
        sys.modules.pop("whileback.engines.xla", None)
        return call()


def arrays(name: str, **held: Any) -> str:
    np.savez(name, **held) if name.endswith(".npz") else np.save(name, held["x"])
    return name


def saved_model() -> Path:
    folder = Path("saved")
    folder.mkdir()
    (folder / "saved_model.pb").touch()
    return folder


def newer_ir() -> None:
    proto = ir.to_proto(model())
    proto.ir_version = 99
    whileback.load(write("newer.onnx", proto.SerializeToString()))


def data_outside() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[1] x) => (float[1] y) { y = Add(x, w) }'
    )
    tensor = proto.graph.initializer.add(name="w", data_type=1, dims=[1], data_location=1)
    tensor.external_data.add(key="location", value="../weights.bin")
    onnx.save(proto, "outside.onnx")
    whileback.gradient("outside.onnx", "y", "x", reduce="sum")


def trained_to_nothing() -> None:
    Path("runs").mkdir()
    batch = {"x": np.ones((4, 2), np.float32), "label": np.full((4, 2), np.nan, np.float32)}
    trainer = training.Trainer(step())
    training.Run(
        trainer, training.Arrays(batch), "runs/a", epochs=1, batch_size=4, learning_rate=0.1
    ).fit()


def malformed_net() -> None:
    net = caffe2.NetDef(name="n")
    net.op.add(type="FC", input=["x"], output=["y"])
    caffe2.convert(net, inputs={"x": (1, 2)})


OWN = "<ir_version: 10, opset_import: ['' : 21, 'my.domain' : 1]> g (float[2] x) => (float[2] y)"
OWN = OWN.replace("'", '"') + " { y = my.domain.Twice(x) }"

CALLS: list[Callable[[], Any]] = [
    lambda: whileback.gradient(model(), "los", "x"),
    lambda: whileback.gradient(model(), "y", "x"),
    lambda: whileback.gradient(model(), "loss", "n"),
    lambda: whileback.gradient(model(), "loss", "next"),
    lambda: whileback.gradient(model(), "loss", "x", memory={"rnn": "keep"}),
    lambda: whileback.gradient(model(), "loss", "x", memory="kept"),
    lambda: whileback.compile(model())(x=X),
    lambda: whileback.compile(model())(x=X, n=3, z=X),
    lambda: whileback.compile(model())(x=np.ones(2), n=3),
    lambda: whileback.compile(model())(x=np.ones(3, np.float32), n=3),
    lambda: whileback.compile(model(), engine="fast"),
    lambda: whileback.rule("Mul")(lambda op, node, dy: dy),
    lambda: whileback.rule("Mull")(lambda op, node, dy: dy),
    lambda: step(loss="mean"),
    lambda: step(optimizer="adamm"),
    lambda: step(trainable=["v*"]),
    lambda: training.step(model(), loss="mse", optimizer="sgd"),
    lambda: training.read_data(arrays("d.npz", x=np.ones((4, 2), np.float32)), step()),
    lambda: training.read_data(
        arrays("d.npz", x=np.ones((4, 2), np.float32), label=np.ones(4, np.float32)),
        step(loss="cross-entropy"),
    ),
    lambda: read_inputs([f"x={arrays('pickled.npy', x=np.array([{}], object))}"]),
    lambda: whileback.load("missing.onnx"),
    lambda: whileback.load(write("empty.onnx")),
    lambda: whileback.load(write("lfs.onnx", b"version https://git-lfs.github.com/spec/v1\noid a")),
    lambda: whileback.load(str(saved_model())),
    lambda: whileback.load(write("text.onnx", b"no model")),
    lambda: whileback.load(write("text.onnx.txt", b"no model")),
    lambda: whileback.save(model(), write("there.onnx")),
    lambda: whileback.save(model(), "nowhere/model.onnx"),
    data_outside,
    malformed_net,
    lambda: gradient("(float[2] x) => (float[2] y) { y = Mul(x, z) }"),
    lambda: gradient("(float[2] x) => (float[2] y) { y = Relu<slope = 2>(x) }"),
    lambda: gradient("(float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }"),
    lambda: whileback.gradient(parse("(float x) => (float y) { y = Relu(x) }", 6), "y", "x"),
    newer_ir,
    lambda: gradient("(float[2] x) => (float[2] y) { y = Gelu(x) }", opset=18),
    lambda: whileback.check(
        parse("(float x) => (float y) { z = RandomNormalLike(x) y = Mul(x, z) }"), "y", "x"
    ),
    lambda: gradient(OWN),
    lambda: gradient(
        "(float[2] x, float s) => (float[2] y)"
        " { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }"
    ),
    lambda: whileback.compile(parse(OWN)),
    lambda: run("(float[2] x, int64 i) => (float y) { y = Gather(x, i) }", x=X, i=5),
    lambda: without("jax", lambda: whileback.compile(model(), engine="xla")),
    lambda: without("onnxruntime", lambda: whileback.compile(model())),
    trained_to_nothing,
    lambda: gradient("(float[2] x) => (float[2] y) { y = Floor(x) }"),
]
