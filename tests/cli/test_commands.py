"""Every command, from its words to its files, its text and its exit status."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.cli.conftest import MODEL, Command

import whileback


def test_gradient_then_run(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "loss", "--wrt", "w", "x", "-o", "power.grad.onnx")
    assert command("gradient", *words) == (0, "", "")
    np.save("x.npy", np.array([1, 3], np.float32))
    # x·w³, so the gradients are 3·x·w² and w³.
    assert command("run", "power.grad.onnx", "n=3", "x=x.npy", "-o", "out.npz") == (
        0,
        "loss : FLOAT[] = 24.125\n"
        "y : FLOAT[2] = [ 0.125, 24.   ]\n"
        "w_grad : FLOAT[2] = [ 0.75, 36.  ]\n"
        "x_grad : FLOAT[2] = [0.125, 8.   ]\n",
        "",
    )
    with np.load("out.npz") as saved:
        assert list(saved) == ["loss", "y", "w_grad", "x_grad"]
        assert saved["w_grad"].tolist() == [0.75, 36]
        assert saved["loss"].dtype == np.float32
        assert saved["loss"].shape == ()


def test_an_initializer_asked_for_is_an_input_with_a_default(command: Command) -> None:
    command("gradient", "power.onnx.txt", "--of", "loss", "--wrt", "w", "-o", "g.onnx")
    result = command("run", "g.onnx", "n=1", "x=[1,1]", "w=[5,7]")
    assert result.out.splitlines()[0] == "loss : FLOAT[] = 12."


def test_vjp(command: Command) -> None:
    assert command("vjp", "power.onnx.txt", "--of", "y", "--wrt", "x", "-o", "v.onnx").status == 0
    result = command("run", "v.onnx", "n=3", "x=[1,3]", "y_grad=[1,10]")
    assert result.out.splitlines()[-1] == "x_grad : FLOAT[2] = [ 0.125, 80.   ]"


@pytest.mark.parametrize(
    ("name", "of", "words", "last"),
    [
        ("jvp", "y", ["x_tangent=[1,10]"], "y_tangent : FLOAT[2] = [ 0.125, 80.   ]"),
        ("hvp", "loss", ["x_tangent=[1,10]"], "x_hvp : FLOAT[2] = [0., 0.]"),
        ("jacobian", "y", [], "y_x_jacobian : FLOAT[2,2] = [[0.125, 0.   ], [0.   , 8.   ]]"),
        ("hessian", "loss", [], "x_x_hessian : FLOAT[2,2] = [[0., 0.], [0., 0.]]"),
    ],
)
def test_other_derivatives(
    command: Command, name: str, of: str, words: list[str], last: str
) -> None:
    result = command(name, "power.onnx.txt", "--of", of, "--wrt", "x", "-o", "d.onnx")
    assert (result.status, result.out) == (0, "")
    result = command("run", "d.onnx", "n=3", "x=[1,3]", *words)
    assert " ".join(result.out.split()).endswith(" ".join(last.split()))


def test_nothing_is_kept_for_tangents(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "y", "--wrt", "x", "-o", "d.onnx")
    result = command("jvp", *words, "--memory", "keep")
    assert result.err.splitlines()[-1] == "error: unrecognized argument: --memory"
    result = command("jvp", *words, "--truncate", "1")
    assert result.err.splitlines()[-1] == "error: unrecognized argument: --truncate"
    for name in ("vjp", "jacobian"):
        assert command(name, *words, "--memory", "recompute", "--force").status == 0


@pytest.mark.parametrize("name", ["gradient", "vjp", "jvp", "hvp", "jacobian", "hessian"])
def test_loops_that_are_truncated_or_iterate_to_a_solution(command: Command, name: str) -> None:
    words = ["power.onnx.txt", "--of", "loss", "--wrt", "x", "-o", "d.onnx", "--force"]
    assert command(name, *words, "--implicit", "y=y").status == 0
    outputs = [value.name for value in onnx.load("d.onnx").graph.output]
    assert any(str(output).endswith("_residual") for output in outputs)
    if name != "jvp":
        assert command(name, *words, "--truncate", "2").status == 0


def test_reduce(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "y", "--wrt", "x", "-o", "g.onnx")
    assert command("gradient", *words) == (
        1,
        "",
        "error: of= names 'y', which is FLOAT[2]: gradient() needs one element. Say "
        'reduce="sum" (--reduce sum) to differentiate the sum of its elements, or use vjp() and '
        "pass the cotangent.\n",
    )
    assert command("gradient", *words, "--reduce", "sum").status == 0
    assert onnx.load("g.onnx").graph.output[-1].name == "x_grad"


def test_what_rounds(command: Command) -> None:
    Path("rounded.onnx.txt").write_text(
        """<ir_version: 10, opset_import: ["": 21]> rounded (float[2] x) => (float[2] y) {
          s = Constant<value = float {0.5}>() z = Constant<value = int8 {0}>()
          q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)
        }"""
    )
    words = ("rounded.onnx.txt", "--of", "y", "--wrt", "x")
    for refused in (("gradient", *words, "--reduce", "sum", "-o", "g.onnx"), ("check", *words)):
        result = command(*refused)
        assert result.status == (2 if refused[0] == "check" else 1)
        assert "--quantized straight-through" in result.err
    option = ("--quantized", "straight-through")
    command("gradient", *words, *option, "--reduce", "sum", "-o", "g.onnx")
    assert command("run", "g.onnx", "x=[0.3,90]").out == (
        "y : FLOAT[2] = [ 0.5, 63.5]\nx_grad : FLOAT[2] = [1., 0.]\n"
    )
    assert command("vjp", *words, *option, "-o", "v.onnx").status == 0
    result = command("check", *words, *option)
    assert (result.status, "ok" in result.out) == (0, True)


def test_nothing_is_overwritten_without_force(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "loss", "--wrt", "x", "-o", "g.onnx")
    Path("g.onnx").write_text("mine")
    result = command("gradient", *words)
    assert result == (
        1,
        "",
        f"error: '{Path('g.onnx').absolute()}' exists; choose another name, or replace it with "
        "--force (in Python overwrite=True)\n",
    )
    assert Path("g.onnx").read_text() == "mine"
    assert command("gradient", *words, "--force").status == 0
    assert onnx.load("g.onnx").graph.output[-1].name == "x_grad"


def test_saving_outputs_overwrites_nothing_without_force(command: Command) -> None:
    Path("out.npz").write_text("mine")
    words = ("run", "power.onnx.txt", "n=1", "x=[1,2]", "-o", "out.npz")
    assert command(*words) == (
        1,
        "",
        f"error: '{Path('out.npz').absolute()}' exists; choose another name, or replace it with "
        "--force (in Python overwrite=True)\n",
    )
    assert Path("out.npz").read_text() == "mine"
    assert command(*words, "--force").status == 0
    assert np.load("out.npz")["y"].tolist() == [0.5, 4]


def test_a_place_for_outputs_is_looked_at_before_the_model_runs(command: Command) -> None:
    here = Path().absolute()
    assert command("run", "power.onnx.txt", "n=1", "x=[1,2]", "-o", "no/out.npz") == (
        1,
        "",
        f"error: '{here / 'no' / 'out.npz'}': there is no folder '{here / 'no'}'; make it first\n",
    )
    assert command("run", "power.onnx.txt", "n=1", "x=[1,2]", "-o", ".", "--force") == (
        1,
        "",
        f"error: '{here}' is a folder; name a file in it\n",
    )


def test_a_seed_below_zero_is_refused(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "loss", "--wrt", "x", "--seed", "-1")
    assert command("check", *words) == (2, "", "error: seed= is -1; it must be 0 or more.\n")


def test_a_warning_is_one_line(command: Command) -> None:
    Path("m.onnx.txt").write_text(
        '<ir_version: 10, opset_import: ["" : 21]>\n'
        "net (float x, float z) => (float y) { y = Neg (x) }"
    )
    result = command("gradient", "m.onnx.txt", "--of", "y", "--wrt", "z", "-o", "g.onnx")
    assert result == (
        0,
        "",
        "warning: No value in of= depends on 'z': its gradient is zero everywhere.\n",
    )


def test_check_that_finds_nothing_wrong(command: Command) -> None:
    result = command("check", "power.onnx.txt", "--of", "loss", "--wrt", "w", "x", "n=3", "x=[1,3]")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == [
        *("value", "type", "verdict", "worst", "at", "gradient", "expected", "error", "allowed"),
    ]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["w", "FLOAT[2]", "ok"],
        ["x", "FLOAT[2]", "ok"],
    ]


def test_check_that_finds_a_wrong_gradient(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(op, node, dC):  # type: ignore[no-untyped-def]
        A, B = node.inputs
        return op.Mul(op.Mul(dC, B), 1.001), op.Mul(dC, A)

    from whileback.gradient import registry

    entry = registry.Entry("", "Mul", rule=wrong)
    monkeypatch.setitem(registry._ENTRIES, ("", "Mul"), entry)
    result = command("check", "power.onnx.txt", "--of", "y", "--wrt", "x", "w", "n=1")
    assert result.status == 1
    assert [line.split()[2] for line in result.out.splitlines()[1:]] == ["WRONG", "ok"]


def test_check_for_programs(command: Command) -> None:
    words = ("check", "power.onnx.txt", "--of", "loss", "--wrt", "x", "n=3", "x=[1,3]", "--json")
    result = command(*words, "--junit", "report.xml")
    assert (result.status, result.err) == (0, "")
    document = json.loads(result.out)
    (value,) = document.pop("values")
    assert document == {"model": "power.onnx.txt", "ok": True}
    worst = value.pop("worst")
    assert value == {
        **{"name": "x", "type": "FLOAT[2]", "verdict": "ok", "ok": True},
        **{"compared": 2, "kinks": []},
    }
    assert list(worst) == ["where", "gradient", "expected", "error", "allowed"]
    assert worst["gradient"] == pytest.approx(worst["expected"])
    assert b'tests="1" failures="0"' in Path("report.xml").read_bytes()
    Path("report.xml").write_text("mine")
    assert command(*words, "--junit", "report.xml") == (
        2,
        "",
        f"error: '{Path('report.xml').absolute()}' exists; choose another name, or replace it "
        "with --force (in Python overwrite=True)\n",
    )
    assert Path("report.xml").read_text() == "mine"
    assert command(*words, "--junit", "report.xml", "--force").status == 0


def test_diff(command: Command) -> None:
    Path("other.onnx.txt").write_text(MODEL.replace("Mul", "Div"))
    assert command("diff", "power.onnx.txt", "power.onnx.txt") == (0, "no difference\n", "")
    assert command("diff", "power.onnx.txt", "other.onnx.txt") == (
        1,
        "nodes: 1 changed, 3 the same\n  in y/body:\n    ~ u = Mul(v, w)\n        Mul → Div\n",
        "",
    )
    result = command("diff", "power.onnx.txt", "other.onnx.txt", "--json")
    assert (result.status, json.loads(result.out)) == (
        1,
        {
            **{"before": "power.onnx.txt", "after": "other.onnx.txt", "same": False},
            **{"unchanged": {"initializer": 1, "node": 3}, "renamed": 0},
            "changes": [
                {
                    **{"kind": "changed", "part": "node", "name": "u", "where": "y/body"},
                    **{"text": "u = Mul(v, w)", "details": ["Mul → Div"], "numbers": {}},
                }
            ],
        },
    )
    assert command("diff", "power.onnx.txt", "none.onnx.txt") == (
        2,
        "",
        "error: 'none.onnx.txt': does not exist; did you mean 'power.onnx.txt' or "
        "'other.onnx.txt'?\n",
    )


def test_show_as_a_page(command: Command) -> None:
    page = Path("page.html")
    assert command("show", "power.onnx.txt", "--html", "page.html") == (0, "", "")
    assert page.read_text(encoding="utf-8") == whileback.to_html("power.onnx.txt")
    taken = (
        f"error: '{page.absolute()}' exists; choose another name, or replace it with --force "
        "(in Python overwrite=True)\n"
    )
    assert command("show", "power.onnx.txt", "--html", "page.html") == (1, "", taken)
    assert command("show", "power.onnx.txt", "--html", "page.html", "--force") == (0, "", "")
    assert command("show", "power.onnx.txt", "--html", "other.html", "--depth", "1") == (
        1,
        "",
        "error: Bodies are unfolded in the page of --html; leave --depth out.\n",
    )
    assert command("show", "missing.onnx", "--html", "other.html").status == 1
    assert not Path("other.html").exists()


def test_diff_as_a_page(command: Command) -> None:
    Path("other.onnx.txt").write_text(MODEL.replace("Mul", "Div"))
    files = ("power.onnx.txt", "other.onnx.txt")
    result = command("diff", *files, "--html", "page.html")
    assert result == command("diff", *files)
    text = Path("page.html").read_text(encoding="utf-8")
    assert text == whileback.to_html(files[1], before=files[0])
    assert '"details":["Mul → Div"]' in text
    assert command("diff", *files, "--html", "page.html").status == 2
    assert command("diff", *files, "--html", "page.html", "--force").status == 1


def test_show(command: Command) -> None:
    result = command("show", "power.onnx.txt")
    assert result == (0, f"{whileback.show('power.onnx.txt')}\n", "")
    assert "    body(i : INT64[], c : BOOL[], v : FLOAT[2]) -> (d, u)\n" in result.out
    assert command("show", "power.onnx.txt", "--all") == result
    assert "# 2 nodes\n" in command("show", "power.onnx.txt", "--depth", "0").out
    assert command("show", "power.onnx.txt", "--node", "u").out.startswith("u: Mul in body of y\n")
    told = json.loads(command("show", "power.onnx.txt", "--json").out)
    assert (told["model"], told["name"]) == ("power.onnx.txt", "power")
    assert command("show", "power.onnx.txt", "--json", "--depth", "1") == (
        1,
        "",
        "error: --json tells what the whole model is; leave --depth out.\n",
    )


def test_rules_lists_every_operator(command: Command) -> None:
    result = command("rules")
    lines = result.out.splitlines()
    newest = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == "" and not schema.deprecated
    }
    assert newest <= {line.split()[0] for line in lines[:-1]}
    (mul,) = [line for line in lines if line.split()[0] == "Mul"]
    assert mul.split()[1:] == ["rule:", mul.split()[-1]]
    assert mul.split()[-1].startswith("whileback/gradient/rules/math/arithmetic.py:")
    assert lines[-1].startswith(f"{len(lines) - 1} operators: ")


def test_rules_tells_more_of_one_operator(command: Command) -> None:
    result = command("rules", "ai.onnx::Mul")
    head, mathematics = result.out.splitlines()[:2]
    assert head.startswith("Mul: rule, whileback/gradient/rules/math/arithmetic.py:")
    assert mathematics == "C = A·B, so dA = dC·B and dB = dC·A, each summed back to its own shape."


def test_rules_of_an_unknown_operator(command: Command) -> None:
    assert command("rules", "MatMull") == (
        1,
        "",
        "error: There is no operator 'MatMull'; did you mean 'MatMul' or 'QLinearMatMul' or "
        "'Mul'?\n",
    )


def test_opset_and_ir_version_are_caps(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "loss", "--wrt", "x", "-o", "g.onnx")
    assert command("gradient", *words, "--opset", "20", "--ir-version", "9").status == 0
    model = onnx.load("g.onnx")
    assert (model.ir_version, model.opset_import[0].version) == (9, 20)
    refused = command("gradient", *words, "--force", "--opset", "8")
    assert refused.status == 1
    assert refused.err.startswith("error: opset=8 cannot be kept: node '")


def test_external_data_in_another_folder(command: Command) -> None:
    model = onnx.parser.parse_model(MODEL)
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.array([0.5, 2], np.float32), "w")
    )
    Path("weights").mkdir()
    onnx.save(
        model,
        "weights/m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=0,
    )
    words = ("gradient", "weights/m.onnx", "--of", "loss", "--wrt", "w", "-o", "g.onnx")
    refused = command(*words)
    assert refused.status == 1
    assert "choose --external-data reference|copy" in refused.err
    assert command(*words, "--external-data", "copy").status == 0
    assert Path("g.onnx.data").stat().st_size == 8
    result = command("run", "g.onnx", "n=3", "x=[1,3]")
    assert result.out.splitlines()[2] == "w_grad : FLOAT[2] = [ 0.75, 36.  ]"
