import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from whileback.engines import compile
from whileback.errors import ArgumentError, EngineError

AFFINE = """<ir_version: 10, opset_import: ["" : 21]>
affine (float[B,2] x, float[2] w) => (float[B,2] y, float[B,2] z) <float[2] w = {3, 4}> {
  y = Mul(x, w)
  z = Add(y, w)
}"""
ENGINES = ["onnxruntime", "reference"]


def model(text):
    return ir.from_onnx_text(text)


def header(signature, body, opset=21):
    return model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {signature} {{ {body} }}')


@pytest.mark.parametrize("engine", ENGINES)
def test_outputs_by_name_in_order_and_defaults(engine):
    f = compile(model(AFFINE), engine)
    x = np.array([[1, 2]], np.float32)
    got = f(x=x)
    assert list(got) == ["y", "z"]
    np.testing.assert_array_equal(got["z"], [[6, 12]])
    np.testing.assert_array_equal(f({"x": x}, w=[1, 1])["y"], x)
    assert f.defaults == {"w"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_proto_and_names_that_are_no_python_names(engine):
    proto = ir.to_proto(header('(float[2] "a/b:0") => (float[2] y)', 'y = Neg("a/b:0")'))
    got = compile(proto, engine)({"a/b:0": [1, 2]})
    np.testing.assert_array_equal(got["y"], [-1, -2])


@pytest.fixture
def external(tmp_path):
    """Return the path of a model whose weight lies in another file of its folder."""
    ir.save(model(AFFINE), tmp_path / "m.onnx", external_data="w.bin", size_threshold_bytes=0)
    assert (tmp_path / "w.bin").stat().st_size == 8
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("engine", ENGINES)
def test_external_data(engine, external):
    proto = onnx.load(external, load_external_data=False)
    for given in (external, str(external), ir.load(external)):
        np.testing.assert_array_equal(compile(given, engine)(x=[[1, 2]])["y"], [[3, 8]])
    got = compile(proto, engine, base_dir=external.parent)(x=[[1, 2]])
    np.testing.assert_array_equal(got["y"], [[3, 8]])


def test_a_text_file(tmp_path):
    (tmp_path / "m.onnx.txt").write_text(AFFINE)
    np.testing.assert_array_equal(compile(tmp_path / "m.onnx.txt")(x=[[1, 2]])["y"], [[3, 8]])


def test_external_data_in_two_folders(external, tmp_path):
    given = ir.load(external)
    other = ir.ExternalTensor(
        "v.bin", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="v", base_dir="elsewhere"
    )
    given.graph.register_initializer(ir.Value(name="v", const_value=other))
    with pytest.raises(EngineError) as error:
        compile(given)
    assert str(error.value) == (
        f"ONNX Runtime refuses model 'affine': its external data lies in several folders: "
        f"'{tmp_path}', 'elsewhere'. Save it into one folder first."
    )


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16])
def test_small_floats_go_through_onnx_runtime(dtype):
    name = ir.DataType.from_numpy(np.dtype(dtype)).name.lower()
    f = compile(
        header(
            f"({name}[N] x, float[N] u) => (float[N] y, {name}[N] z)",
            f"y = Cast<to = 1>(x)\n z = Cast<to = {int(ir.DataType[name.upper()])}>(u)",
        )
    )
    x, u = np.array([1.5, -2], dtype), np.array([0.1, 3], np.float32)
    got = f(x=x, u=u)
    np.testing.assert_array_equal(got["y"], [1.5, -2])
    assert got["z"].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got["z"], u.astype(dtype))
    assert f(x=x[:0], u=u[:0])["z"].shape == (0,)


SMALL_INTEGERS = [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]


@pytest.mark.parametrize("dtype", SMALL_INTEGERS)
@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_integers_that_share_bytes_go_through_onnx_runtime(dtype, count):
    data_type = ir.DataType.from_numpy(np.dtype(dtype))
    name = data_type.name.lower()
    f = compile(
        header(
            f"({name}[N] x, float[N] u) => (float[N] y, {name}[N] z)",
            f"y = Cast<to = 1>(x)\n z = Cast<to = {int(data_type)}>(u)",
            opset=25,
        )
    )
    info = ml_dtypes.iinfo(dtype)
    u = np.random.default_rng(0).integers(info.min, info.max + 1, count).astype(np.float32)
    got = f(x=u.astype(dtype), u=u)
    np.testing.assert_array_equal(got["y"], u)
    assert got["z"].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got["z"], u.astype(dtype))


def test_a_scalar_that_numpy_has_no_type_for_stays_one():
    f = compile(header("(bfloat16 x) => (float y)", "y = Cast<to = 1>(x)"))
    assert f(x=np.array(1.5, ml_dtypes.bfloat16))["y"].shape == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_sequences(engine):
    f = compile(
        header(
            "(seq(float[N]) s, float[N] x) => (seq(float[N]) t, int64 n)",
            "t = SequenceInsert(s, x)\n n = SequenceLength(t)",
        ),
        engine,
    )
    got = f(s=[np.ones(2, np.float32)], x=[5])
    assert [item.tolist() for item in got["t"]] == [[1, 1], [5]]
    assert got["n"] == 2
    assert f(s=[], x=[5])["n"] == 1


@pytest.mark.parametrize("optimization", ["disabled", "basic", "extended", "all"])
def test_options(optimization):
    f = compile(model(AFFINE), optimization=optimization, threads=1)
    np.testing.assert_array_equal(f(x=[[1, 2]])["y"], [[3, 8]])


def test_wrong_options_and_engines():
    with pytest.raises(ArgumentError) as error:
        compile(model(AFFINE), "onxruntime")
    assert str(error.value) == "There is no engine 'onxruntime'; did you mean 'onnxruntime'?"
    with pytest.raises(ArgumentError) as error:
        compile(model(AFFINE), "nonsense")
    assert str(error.value) == (
        "There is no engine 'nonsense'; there are 4: 'auto', 'onnxruntime', 'reference', 'xla'"
    )
    for engine in ("onnxruntime", "auto"):
        with pytest.raises(ArgumentError) as error:
            compile(model(AFFINE), engine, thread=1)
        assert str(error.value) == (
            "The engine 'onnxruntime' has no option 'thread'; did you mean 'threads'?"
        )
    with pytest.raises(ArgumentError) as error:
        compile(model(AFFINE), "xla", threads=1)
    assert str(error.value) == "The engine 'xla' has no option 'threads'; there are 1: 'mesh'"
    assert compile(model(AFFINE), "auto", threads=1)(x=[[1, 2]])["y"].tolist() == [[3, 8]]
    with pytest.raises(ArgumentError) as error:
        compile(model(AFFINE), optimization="alll")
    assert str(error.value) == "There is no optimization level 'alll'; did you mean 'all'?"


def test_refused_models_and_failing_nodes_are_named():
    unknown = header("(float[N] x) => (float[N] y)", "[f] y = Foo(x)")
    with pytest.raises(EngineError) as error:
        compile(unknown)
    assert str(error.value) == (
        "ONNX Runtime refuses model 'g': This is an invalid model. In Node, "
        '("f", Foo, "", -1) : ("x": tensor(float),) -> ("y": tensor(float),) , '
        "Error No Op registered for Foo with domain_version of 21"
    )
    failing = compile(header("(float[N] x, float[M] w) => (float[K] y)", "[a] y = Add(x, w)"))
    with pytest.raises(EngineError) as error:
        failing(x=[1, 2], w=[1, 2, 3])
    assert str(error.value).startswith(
        "ONNX Runtime failed to run model 'g': Non-zero status code returned while running "
        "Add node. Name:'a' Status Message: "
    )
    assert error.value.__cause__ is not None
    assert error.value.node == "a"
    assert str(error.value).endswith(f"Status Message: {error.value.reason}")


def test_nodes_at_fault_before_a_model_runs():
    for text, node, reason in (
        ("(double[N] x) => (double[N] y)", "f", ""),
        ("(float[2] x, float[3] w) => (float[K] y)", "g", "[ShapeInferenceError] Incompatible"),
    ):
        operator = "Acos(x)" if node == "f" else "Add(x, w)"
        with pytest.raises(EngineError) as error:
            compile(header(text, f"[{node}] y = {operator}"))
        assert error.value.node == node
        assert error.value.reason.startswith(reason)
        assert bool(error.value.reason) == bool(reason)


def test_arguments_are_checked():
    with pytest.raises(ArgumentError, match=r"Model 'affine' has no input 'q'"):
        compile(model(AFFINE))(q=1)


def test_a_missing_runtime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EngineError) as error:
        compile(model(AFFINE))
    assert str(error.value) == (
        "The engine 'onnxruntime' needs the package onnxruntime, which is not installed. "
        "Install it with: pip install 'whileback[onnxruntime]'"
    )


def test_defaults_of_inputs_cause_no_warning_and_no_runtime_is_imported_early():
    script = f"""
import sys
import whileback.engines
assert "onnxruntime" not in sys.modules and "onnx.reference" not in sys.modules
import onnx_ir as ir
whileback.engines.compile(ir.from_onnx_text({AFFINE!r}))(x=[[1, 2]])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_arguments_stay_as_they_are_where_the_runtime_would_write_over_them():
    run = compile(
        header(
            "(float[4,1] x, float[1] mean, float[1] var) => (float[4,1] y, float[1] m)"
            "<float[1] s = {2}, float[1] b = {0.5}>",
            """y, mean_out, var_out = BatchNormalization<training_mode = 1, momentum = 0.9>
                 (x, s, b, mean, var)
               m = Neg(mean_out)""",
        )
    )
    mean, var = np.zeros(1, np.float32), np.ones(1, np.float32)
    for _ in range(2):
        got = run(x=np.array([[1], [2], [3], [6]], np.float32), mean=mean, var=var)
        assert got["m"] == pytest.approx(np.array([-0.3]))
    assert (mean.item(), var.item()) == (0.0, 1.0)


def test_a_missing_compiler(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("whileback.engines.xla")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(EngineError) as error:
        compile(model(AFFINE), "xla")
    assert str(error.value) == (
        "The engine 'xla' needs the package jax, which is not installed. "
        "Install it with: pip install 'whileback[xla]'"
    )
    assert compile(model(AFFINE), "auto").explain() == (
        "'affine' is run node by node: nothing is compiled."
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_that_is_returned_twice(engine):
    twice = header("(float x) => (float y)", "y = Neg(x)")
    twice.graph.outputs.append(twice.graph.outputs[0])
    assert compile(twice, engine)(x=2.0) == {"y": -2.0}


def test_an_operator_that_is_lacking_for_a_type():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 21]> m (bfloat16[2] x) => (bfloat16[2] y) '
        "{ [n] y = Tanh(x) }"
    )
    with pytest.raises(EngineError) as error:
        compile(model)
    assert str(error.value) == (
        "ONNX Runtime refuses model 'm': Could not find an implementation for Tanh(13) node with "
        "name 'n', which is lacking on a CPU for the types that it is given; convert the model to "
        "FLOAT, or take another engine (--engine)"
    )
    assert error.value.node == "n"
