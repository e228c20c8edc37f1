"""The public calls: three forms of a model in, the right form out, nothing modified."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import whileback

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
net (float[2] x, bool flag) => (float loss, float[2] y) <float[2] w = {3, 5}> {
    [choose] y = If (flag) <
        then_branch = yes () => (float[2] a) <float[2] k = {2, 4}> { a = Mul (w, k) },
        else_branch = no () => (float[2] b) { b = Mul (w, x) }>
    loss = ReduceSum <keepdims = 0> (y)
}"""


def proto() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT)


def with_data(folder: Path) -> Path:
    """Write the model with its weight in a file beside it."""
    model = proto()
    weight = onnx.numpy_helper.from_array(np.array([3, 5], np.float32), "w")
    model.graph.initializer[0].CopyFrom(weight)
    folder.mkdir(exist_ok=True)
    onnx.save(
        model,
        folder / "net.onnx",
        save_as_external_data=True,
        location="net.bin",
        size_threshold=0,
    )
    return folder / "net.onnx"


def test_a_proto_gives_a_proto_and_stays_as_it_is() -> None:
    model = proto()
    before = model.SerializeToString(deterministic=True)
    for result in (
        whileback.gradient(model, of="loss", wrt=["w", "x"]),
        whileback.vjp(model, of=["y"], wrt=["x"]),
        whileback.jvp(model, of=["y"], wrt=["x"]),
        whileback.hvp(model, of="loss", wrt=["w", "x"]),
        whileback.jacobian(model, of=["y"], wrt=["x"]),
        whileback.hessian(model, of="loss", wrt=["w", "x"]),
    ):
        assert isinstance(result, onnx.ModelProto)
        onnx.checker.check_model(result, full_check=True)
    whileback.check(model, of="loss", wrt=["w", "x"])
    assert model.SerializeToString(deterministic=True) == before


def test_an_ir_model_gives_an_ir_model_and_stays_as_it_is() -> None:
    model = ir.from_onnx_text(TEXT)
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    assert isinstance(whileback.gradient(model, of="loss", wrt="x"), ir.Model)
    assert isinstance(whileback.vjp(model, of="y", wrt="x"), ir.Model)
    assert isinstance(whileback.jvp(model, of="y", wrt="x"), ir.Model)
    assert isinstance(whileback.hvp(model, of="loss", wrt="x"), ir.Model)
    assert isinstance(whileback.jacobian(model, of="y", wrt="x"), ir.Model)
    assert isinstance(whileback.hessian(model, of="loss", wrt="x"), ir.Model)
    whileback.check(model, of="loss", wrt="x")
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_gives_a_proto_that_refers_to_the_data(tmp_path: Path, kind: type) -> None:
    path = with_data(tmp_path)
    result = whileback.gradient(kind(path), of="loss", wrt="w")
    assert isinstance(result, onnx.ModelProto)
    (weight,) = [each for each in result.graph.initializer if each.name == "w"]
    assert weight.data_location == onnx.TensorProto.EXTERNAL
    assert weight.external_data[0].value == "net.bin"
    outputs = whileback.compile(result, base_dir=tmp_path)(x=[1, 10], flag=False)
    assert outputs["w_grad"].tolist() == [1, 10]


def test_all_forms_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(proto().SerializeToString())
    (tmp_path / "net.onnx.txt").write_text(TEXT)
    results = [
        whileback.gradient(model, of="loss", wrt=["w", "x"])
        for model in (proto(), tmp_path / "net.onnx", str(tmp_path / "net.onnx.txt"))
    ]
    own_kind = whileback.gradient(ir.from_onnx_text(TEXT), of="loss", wrt=["w", "x"])
    assert {whileback.show(result) for result in results} == {whileback.show(own_kind)}


def test_base_dir_of_a_proto(tmp_path: Path) -> None:
    model = onnx.load(with_data(tmp_path), load_external_data=False)
    result = whileback.gradient(model, of="loss", wrt="w", base_dir=tmp_path)
    outputs = whileback.compile(result, base_dir=tmp_path)(x=[1, 10], flag=False)
    assert outputs["w_grad"].tolist() == [1, 10]
    assert whileback.check(model, of="loss", wrt="w", base_dir=tmp_path).ok
    assert "w : FLOAT[2] = data in 'net.bin'" in whileback.show(model, base_dir=tmp_path)
    assert whileback.names(result, base_dir=tmp_path) == {"w": "w_grad"}
    whileback.save(result, tmp_path / "g.onnx", base_dir=tmp_path)
    assert whileback.compile(tmp_path / "g.onnx")(x=[1, 10], flag=False)["loss"] == 53


def test_base_dir_for_what_knows_its_own() -> None:
    with pytest.raises(whileback.ArgumentError) as caught:
        whileback.gradient(ir.from_onnx_text(TEXT), of="loss", wrt="w", base_dir=".")  # type: ignore[call-overload]
    assert str(caught.value) == (
        "base_dir= is the folder of a ModelProto's external data; a path or an ir.Model knows its "
        "own. Leave it out."
    )


def test_no_model() -> None:
    with pytest.raises(whileback.ArgumentError) as caught:
        whileback.gradient(b"net", of="loss", wrt="w")  # type: ignore[call-overload]
    assert str(caught.value) == (
        "model= is a 'bytes'; give a path, an onnx.ModelProto or an onnx_ir.Model."
    )


def test_names() -> None:
    assert whileback.names(whileback.gradient(proto(), of="loss", wrt="x")) == {"x": "x_grad"}
    assert whileback.names(whileback.vjp(proto(), of="y", wrt=["x", "w"])) == {
        "y": "y_grad",
        "x": "x_grad",
        "w": "w_grad",
    }
    assert whileback.names(proto()) == {}


def test_check_of_an_initializer_inside_a_branch() -> None:
    address = "choose/then_branch/k"
    report = whileback.check(proto(), "loss", [address, "w"], {"flag": True, "x": [1, 10]})
    assert report.ok
    assert [finding.name for finding in report.findings] == [address, "w"]
    worst = report.findings[0].worst
    assert worst is not None
    # loss = Σ w·k, and w = (3, 5).
    assert worst.want == pytest.approx(3 if worst.where == "[0]" else 5)


def test_check_of_values_of_any_shape_uses_cotangents() -> None:
    report = whileback.check(proto(), of=["y", "loss"], wrt=["x"], inputs={"flag": False})
    assert [finding.verdict for finding in report.findings] == ["ok"]


def test_check_of_what_rounds() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> rounded (float[2] x) => (float[2] y) {
          s = Constant<value = float {0.5}>() z = Constant<value = int8 {3}>()
          q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Sin(d)
        }"""
    )
    report = whileback.check(model, "y", "x", {"x": [0.3, 90]}, quantized="straight-through")
    assert report.ok and [finding.verdict for finding in report.findings] == ["ok"]
    with pytest.raises(whileback.NoGradientError):
        whileback.check(model, "y", "x")
    with pytest.raises(whileback.ArgumentError) as caught:
        whileback.vjp(model, "y", "x", quantized="round")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "quantized='round' is unknown; give quantized=\"straight-through\" or leave it out."
    )


def test_the_warning_points_at_the_call() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]>g (float x, float z) => (float y) { y = Neg (x) }'
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = whileback.gradient(model, of="y", wrt="z")
    assert [Path(warning.filename).name for warning in caught] == ["test_api.py"]
    assert whileback.compile(result)(x=1.0, z=2.0)["z_grad"] == 0


def test_a_rule_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from whileback.gradient import registry

    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    text = '<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]> g (float x) => (float y) {'
    model = onnx.parser.parse_model(text + " y = my.domain.Twice (x) }")
    with pytest.raises(whileback.NoGradientError, match=r"my\.domain@1::Twice"):
        whileback.gradient(model, of="y", wrt="x")

    @whileback.rule("my.domain::Twice")
    def twice(op, node, dy):  # type: ignore[no-untyped-def]
        """y = 2·x, so dx = 2·dy."""
        return op.Mul(dy, 2.0)

    assert "Mul(1.0, 2.0)" in whileback.show(whileback.gradient(model, of="y", wrt="x"))


def test_the_function_and_the_package_of_that_name() -> None:
    from whileback.gradient import vjp

    assert callable(whileback.gradient)
    assert isinstance(vjp(ir.from_onnx_text(TEXT), of="y", wrt="x"), ir.Model)
    assert sorted(whileback.__all__) == sorted(set(whileback.__all__) & set(dir(whileback)))


@pytest.mark.parametrize("runtime", ["onnxruntime", "onnx.reference", "torch", "jax"])
def test_the_import_loads_no_runtime(runtime: str) -> None:
    code = f"import sys, whileback, whileback.cli; sys.exit({runtime!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
