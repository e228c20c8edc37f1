"""The commands on Caffe2's files."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.cli.conftest import Command

DATA = Path(__file__).parent.parent / "formats" / "caffe2" / "data"
NET = """name: "n"
op { type: "FC" input: "x" input: "w" input: "b" output: "y" }
op { type: "Relu" input: "y" output: "y" }
op { type: "Dropout" input: "y" output: "y" output: "mask" arg { name: "is_test" i: 1 } }
op { type: "SumElements" input: "y" output: "loss" }
external_input: "x" external_input: "w" external_input: "b"
external_output: "y" external_output: "loss"
"""
SHAPES = ("--input", "x=N,2", "w=2,2", "b=2")
VALUES = ("x=[[1.0,-2.0]]", "w=[[1.0,2.0],[3.0,-1.0]]", "b=[0.5,-0.5]")
# Conformance case 39: operators that write their own input.
GRADIENTS = {"x": [[3, -1]], "w": [[0, 0], [1, -2]], "b": [0, 1]}


@pytest.fixture
def net(command: Command) -> Command:
    Path("n.pbtxt").write_text(NET)
    return command


def test_run(net: Command) -> None:
    assert net("run", "n.pbtxt", *VALUES, "-o", "out.npz") == (
        0,
        "y : FLOAT[1,2] = [[0. , 4.5]]\nloss : FLOAT[] = 4.5\n",
        "",
    )
    with np.load("out.npz") as saved:
        assert saved["loss"] == 4.5


def test_convert_then_run(net: Command) -> None:
    assert net("convert", "n.pbtxt", "-o", "n.onnx", *SHAPES) == (0, "", "")
    model = onnx.load("n.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["x", "w", "b"]
    assert net("run", "n.onnx", *VALUES).out.splitlines()[-1] == "loss : FLOAT[] = 4.5"


def test_diff_of_a_net_and_the_model_made_of_it(net: Command) -> None:
    net("convert", "n.pbtxt", "-o", "n.onnx", *SHAPES)
    assert net("diff", "n.pbtxt", "n.onnx", *SHAPES) == (0, "no difference\n", "")
    Path("other.pbtxt").write_text(NET.replace("Relu", "Tanh"))
    result = net("diff", "n.pbtxt", "other.pbtxt", *SHAPES)
    assert (result.status, "Relu → Tanh" in result.out) == (1, True)
    assert net("diff", "n.onnx", "n.onnx", *SHAPES) == (
        2,
        "",
        "error: --init and --input are for Caffe2's nets, and 'n.onnx' is none.\n",
    )


def test_profile_of_a_net(net: Command) -> None:
    result = net("profile", "n.pbtxt", *VALUES, "--runs", "1", "--optimization", "disabled")
    assert (result.status, result.err) == (0, "")
    assert "Relu" in result.out


def test_gradient_as_onnx(net: Command) -> None:
    words = ("--of", "loss", "--wrt", *GRADIENTS, "-o", "g.onnx", *SHAPES)
    assert net("gradient", "n.pbtxt", *words) == (0, "", "")
    net("run", "g.onnx", *VALUES, "-o", "out.npz")
    with np.load("out.npz") as saved:
        assert {name: saved[f"{name}_grad"].tolist() for name in GRADIENTS} == GRADIENTS


@pytest.mark.parametrize("file", ["g.pbtxt", "g.pb"])
def test_gradient_as_net(net: Command, file: str) -> None:
    result = net("gradient", "n.pbtxt", "--of", "loss", "--wrt", *GRADIENTS, "-o", file)
    assert result.status == 0
    assert result.out == "x : x_grad\nw : w_grad\nb : b_grad\n"
    net("run", file, *VALUES, "-o", "out.npz")
    with np.load("out.npz") as saved:
        assert {name: saved[f"{name}_grad"].tolist() for name in GRADIENTS} == GRADIENTS


def test_what_is_differentiated_is_the_last_value_of_a_blob(net: Command) -> None:
    Path("square.pbtxt").write_text('op { type: "Sqr" input: "x" output: "x" }')
    words = ("--of", "x", "--wrt", "x")
    net("gradient", "square.pbtxt", *words, "-o", "g.onnx", "--input", "x=FLOAT:")
    assert net("run", "g.onnx", "x=3.0").out == "x@1 : FLOAT[] = 9.\nx_grad : FLOAT[] = 6.\n"
    assert net("check", "square.pbtxt", *words, "x=3.0").status == 0
    net("gradient", "square.pbtxt", *words, "-o", "g.pbtxt")
    assert net("run", "g.pbtxt", "x=3.0").out.splitlines()[-1] == "x_grad : FLOAT[] = 6."


def test_gradient_replaces_no_net_unasked(net: Command) -> None:
    before = Path("n.pbtxt").read_text()
    result = net("gradient", "n.pbtxt", "--of", "loss", "--wrt", "x", "-o", "n.pbtxt")
    assert result.status == 1
    assert "exists; choose another name" in result.err
    assert Path("n.pbtxt").read_text() == before


def test_check(net: Command) -> None:
    result = net("check", "n.pbtxt", "--of", "loss", "--wrt", *GRADIENTS, *VALUES)
    assert result.status == 0
    assert [line.split()[2] for line in result.out.splitlines()[1:]] == ["ok"] * 3


def test_show(net: Command) -> None:
    text = net("show", "n.pbtxt", *SHAPES).out
    assert "Gemm(x, w, b, transB=1)" in text


def test_an_export_with_its_init_net(command: Command) -> None:
    files = (str(DATA / "predict_net.pb"), str(DATA / "init_net.pb"))
    words = ("-o", "p.onnx", "--input", "data=N,4", "--check", str(DATA / "io.npz"))
    result = command("convert", *files, *words)
    assert result.status == 0
    assert result.out.startswith("sm differs by at most 0, of 0.")
    values = "data=[[1.0,2.0,3.0,4.0]]"
    command("run", files[0], "--init", files[1], values, "-o", "net.npz")
    command("run", "p.onnx", values, "-o", "model.npz")
    with np.load("net.npz") as net, np.load("model.npz") as model:
        np.testing.assert_allclose(net["sm"], model["sm"], rtol=1e-6)


def test_recorded_outputs_that_differ(command: Command) -> None:
    with np.load(DATA / "io.npz") as recorded:
        np.savez("io.npz", data=recorded["data"], sm=recorded["sm"] + 1)
    words = (str(DATA / "predictor.minidb"), "-o", "p.onnx", "--check", "io.npz")
    result = command("convert", *words)
    assert result.status == 1
    assert result.err.startswith(
        "error: --check: the model does not give what 'io.npz' holds: sm differs by at most 1, of "
    )
    assert not Path("p.onnx").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("convert", "n.pbtxt", "-o", "n.onnx", "--input", "x"),
            "--input 'x' is not of the form NAME=SHAPE, such as data=1,3,224,224, ids=INT32:N,5, "
            "or x=FLOAT: for a single number.",
        ),
        (
            ("convert", "n.pbtxt", "-o", "n.onnx", "--input", "x=flot:2"),
            "--input 'x=flot:2': there is no type 'flot'; did you mean 'FLOAT' or 'FLOAT16' or "
            "'BFLOAT16'?",
        ),
        (
            ("show", "power.onnx.txt", "--input", "x=2"),
            "--init and --input are for Caffe2's nets, and 'power.onnx.txt' is none.",
        ),
        (
            ("run", "n.pbtxt", *VALUES, "--engine", "xla"),
            "--engine is for models, and 'n.pbtxt' is a net of Caffe2's. Leave it out, or make a "
            "model of the net with `whileback convert`.",
        ),
        (
            ("run", "n.pbtxt", "x=[[1.0,-2.0]]"),
            "FC (writes 'y') of net 'n' reads blob 'w', which the workspace does not have; there "
            "are 1: 'x' Feed it, or run the net that makes it first.",
        ),
        (
            ("convert", "n.pbtxt", "-o", "n.onnx", "--check", "n.pbtxt"),
            "'n.pbtxt': holds no arrays in NumPy's .npz format, which np.savez writes, or is "
            "damaged (File is not a zip file); write it again",
        ),
    ],
)
def test_what_is_said_wrongly(net: Command, words: tuple[str, ...], said: str) -> None:
    result = net(*words)
    assert result == (1, "", f"error: {said}\n")
