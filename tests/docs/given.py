"""What a page takes for granted, files and names, made small; and what it comes to."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from examples.pypi import fetch
from tests.judge import parse

import whileback
from whileback import caffe2, training

Scope = dict[str, Any]
CLASSIFIER = """<ir_version: 10, opset_import: ["" : 21]>
classifier (float[N,2] x) => (float[N,2] z) <float[2,2] w = {1, 0, 0, 1}, float[2] bias = {0, 0}> {
    z = Gemm(x, w, bias)
}"""
RECURRENT = """(float[4] x, int64 T) => (float loss) <float[4] w = {1, 2, 3, 4}> {
    rnn = Loop(T, "", x) <body = trip (int64 i, bool c, float[4] v) => (bool d, float[4] h) {
        d = Identity(c)
        h = Mul(v, w)
    }>
    loss = ReduceSum<keepdims = 0>(rnn)
}"""

EQUILIBRIUM = """(float[2] u) => (float loss) <float[2,2] W = {0.1, 0.2, 0.2, 0.1}> {
    trips = Constant<value_int = 50>()
    layer = Loop(trips, "", u) <body = f (int64 i, bool c, float[2] z) => (bool d, float[2] r) {
        d = Identity(c)
        a = MatMul(z, W)
        b = Add(a, u)
        r = Tanh(b)
    }>
    loss = ReduceSum<keepdims = 0>(layer)
}"""


def given(page: str) -> Scope:
    """Write what the page takes for granted into the current folder, and return its names."""
    return GIVEN.get(page, dict)()


def judge(page: str, scope: Scope) -> None:
    """Judge what a page came to, beyond what it says itself."""
    JUDGES.get(page, lambda _: None)(scope)


def for_training() -> Scope:
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 2)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int64)
    whileback.save(ir.from_onnx_text(CLASSIFIER), "model.onnx")
    for name in ("train", "test"):
        np.savez(f"{name}.npz", x=x, y=y)
    np.save("x.npy", x), np.save("y.npy", y)
    rows = [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), y.tolist(), strict=True)]
    Path("table.csv").write_text("\n".join(["p0,p1,y", *rows]))
    return {"x": x, "batches": [{"x": x, "label": y}] * 2}


def for_readme() -> Scope:
    whileback.save(parse(RECURRENT), "recurrent.onnx")
    whileback.save(parse(EQUILIBRIUM), "deq.onnx")
    return {}


def tuned(scope: Scope) -> None:
    found = whileback.compile("tuned.onnx")(x=scope["batches"][0]["x"])
    assert found["z"].shape == (32, 2)


def for_xla() -> Scope:
    model = ir.from_onnx_text(CLASSIFIER)
    batch = {"x": np.ones((4, 2), np.float32), "label": np.zeros(4, np.int64)}
    return {"step": training.step(model, loss="cross-entropy", optimizer="sgd"), "batch": batch}


def for_caffe2() -> Scope:
    images = caffe2.NetBuilder("images")
    with images as net:
        data, w = net.input("data"), net.input("scale")
        net.output(net.Mul(net.AveragePool(data, global_pooling=1), w))
    fill = caffe2.NetDef(name="fill")
    fill.op.add(type="GivenTensorFill", output=["scale"])
    fill.op[0].arg.add(name="values", floats=[2.0])
    fill.op[0].arg.add(name="shape", ints=[1])
    with caffe2.NetBuilder("loss") as net:
        x, w = net.input("x"), net.input("w")
        net.output(net.AveragedLoss(net.Mul(net.Mul(x, w), w), out="loss"))
    nets = {"predict_net.pb": images.proto(), "init_net.pb": fill, "net.pbtxt": net.proto()}
    for file, proto in nets.items():
        caffe2.save(proto, file)
    return {}


def downloaded(package: str, version: str, *files: str, tag: str = "py3-none-any") -> None:
    """Write what `pip download` would: a wheel, here with some of its files alone."""
    folder = fetch(package, version)
    wheel = f"{package.replace('-', '_')}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in files:
            archive.write(folder / file, file)


def for_saliency() -> Scope:
    downloaded("silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx")
    downloaded("auditok", "0.3.0", "auditok/data/1to6arabic_16000_mono_bc_noise.wav")
    return {}


def for_tuning() -> Scope:
    home = "magika/models/standard_v3_3"
    files = (f"{home}/model.onnx", f"{home}/config.min.json")
    downloaded("magika", "1.0.3", *files, tag="py3-none-manylinux_2_28_x86_64")
    return {}


GIVEN: dict[str, Callable[[], Scope]] = {
    "README.md": lambda: {**for_caffe2(), **for_training(), **for_readme()},
    "docs/training.md": for_training,
    "docs/guides/fine-tuning.md": for_tuning,
    "docs/guides/saliency.md": for_saliency,
    "docs/xla.md": for_xla,
}
JUDGES: dict[str, Callable[[Scope], None]] = {
    "README.md": tuned,
    "docs/training.md": tuned,
}
