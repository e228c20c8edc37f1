"""What is shown of a model: all of a small one, one screen of a large one, or a part."""

import json
from collections.abc import Callable

import onnx_ir as ir
import pytest

import whileback
from whileback.errors import ArgumentError
from whileback.showing.screen import to_screen
from whileback.showing.summary import summarize

HEADER = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]>\n'
POWER = """power (int64 n, float[2] x) => (float loss) <float[2] w = {0.5, 2}> {
    y = Loop (n, "", x) <body = trip (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
        d = Identity (c)
        u = Mul (v, w)
    }>
    loss = ReduceSum <keepdims = 0> (y)
}"""


def parse(text: str) -> ir.Model:
    return ir.from_onnx_text(HEADER + text)


def gradient() -> ir.Model:
    return whileback.gradient(parse(POWER), "loss", ["w", "x"])


def chain(length: int) -> ir.Model:
    """Return a model of so many nodes in a row."""
    nodes = "\n".join(f"v{i + 1} = Neg (v{i})" for i in range(length))
    return parse(f"chain (float[2] v0) => (float[2] v{length}) {{ {nodes} }}")


def nested(depth: int, width: int) -> ir.Model:
    """Return a model of branches in branches, each beside as many others."""

    def block(level: int) -> str:
        if level == depth:
            return f"r{level} = Identity (x)"
        inner = block(level + 1)
        ifs = "\n".join(
            f"s{level}_{i} = If (c) <then_branch = t () => (float r{level + 1}) {{ {inner} }}, "
            f"else_branch = e () => (float z) {{ z = Neg (x) }}>"
            for i in range(width)
        )
        return f"{ifs}\nr{level} = Identity (s{level}_0)"

    return parse(f"nested (bool c, float x) => (float r0) {{ {block(0)} }}")


@pytest.mark.parametrize(("length", "whole"), [(10, True), (34, True), (35, False), (5000, False)])
def test_a_model_is_shown_whole_if_it_fits_on_a_screen(length: int, whole: bool) -> None:
    model = chain(length)
    everything = whileback.show(model, everything=True)
    assert everything.count("Neg(") == length
    assert (whileback.show(model) == everything) is whole


def test_screen() -> None:
    assert to_screen(summarize(gradient())).splitlines() == [
        "power: ai.onnx@21, my@1, IR 10",
        "14 nodes, 11 of them of gradients, nested 2 deep; 32 B in 5 weights and constants",
        "inputs",
        "  n : INT64[]",
        "  x : FLOAT[2]",
        "  w : FLOAT[2] = [0.5, 2.0]",
        "outputs",
        "  loss : FLOAT[]",
        "  w_grad : FLOAT[2]",
        "  x_grad : FLOAT[2]",
        "operators",
        "  1 Loop, 1 Mul, 1 ReduceSum",
        "operators of gradients",
        "  3 Expand, 2 Mul, 1 Shape, 1 Greater, 1 If, 1 Scan, 1 Add, 1 Identity",
        "loops and branches, and how many nodes they have",
        "  Loop (Loop): body 1",
        "    # keep: the number of trips is known only when it runs; a trip keeps 8 B:",
        "    #   v FLOAT[2], 8 B: carried into the trip",
        "  Loop/grad/If (If): then_branch 5, else_branch 2  # from Loop",
        "    Loop/grad/Scan (Scan): body 3  # from Loop",
        "--all shows every node, --node NAME one of them, --depth N bodies down to that depth",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: chain(100),
        lambda: nested(3, 4),
        lambda: nested(12, 1),
        lambda: parse(
            f"""many ({", ".join(f"float a{i}" for i in range(90))}) => (
            {", ".join(f"float b{i}" for i in range(90))}) {{
            {" ".join(f"b{i} = my.Op{i} (a{i})" for i in range(90))} }}"""
        ),
    ],
)
def test_a_screen_is_a_screen(make: Callable[[], ir.Model]) -> None:
    lines = whileback.show(make()).splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 96
    assert lines[-1].startswith("--all shows every node")


def test_levels_that_find_no_room_are_counted() -> None:
    shown = whileback.show(nested(3, 4))
    assert "  s0_0 (If): then_branch 61, else_branch 1, 2 deeper\n" in shown
    assert "s1_0" not in shown
    assert "      s2_0 (If): then_branch 19, else_branch 1\n" in whileback.show(nested(9, 1))


def test_weights_in_all_places_are_counted_and_external_data_is_not_read() -> None:
    model = parse(POWER)
    model.graph.initializers["w"].const_value = ir.ExternalTensor(
        "missing.bin", 0, 4 << 20, ir.DataType.FLOAT, shape=ir.Shape([1 << 20]), name="w"
    )
    (weight,) = summarize(model).weights
    assert (weight.name, weight.type, weight.bytes) == ("w", "FLOAT[1048576]", 4 << 20)


def test_functions_are_counted() -> None:
    model = parse(
        """f (float x) => (float y) { y = my.twice (x) }
        <domain: "my", opset_import: ["" : 21]> twice (a) => (b) { c = Neg (a) b = Neg (c) }"""
    )
    assert summarize(model).functions == {"my::twice": 2}
    assert to_screen(summarize(model)).count("  my::twice: 2 nodes") == 1


def test_depth() -> None:
    shown = whileback.show(parse(POWER), depth=0)
    assert "    body(i : INT64[], c : BOOL[], v : FLOAT[2]) -> (d, u)  # 2 nodes\n" in shown
    assert "Mul(" not in shown
    assert whileback.show(parse(POWER), depth=1) == whileback.show(parse(POWER), everything=True)


def test_one_node() -> None:
    assert whileback.show(gradient(), node="u").splitlines() == [
        "Mul: Mul in body of Loop",
        "  u : FLOAT[2] = Mul(v, w)",
        "reads",
        "  v : FLOAT[2]",
        "  w : FLOAT[2] = [0.5, 2.0]",
        "u is read by",
        "  an output of its graph",
        "nodes of its gradient",
        "  Mul/grad/Mul = Mul(v_grad, w)",
        "  Mul/grad/Mul_1 = Mul(v_grad, v_row)",
    ]


def test_a_value() -> None:
    assert whileback.show(parse(POWER), node="w").splitlines() == [
        "w: an initializer of the main graph",
        "  w : FLOAT[2] = [0.5, 2.0]",
        "w is read by",
        "  u = Mul(v, w)",
    ]


def test_details_of_all_nodes() -> None:
    """Every name of every model can be asked for."""
    for model in (gradient(), nested(3, 2)):
        for node in ir.traversal.RecursiveGraphIterator(model.graph):
            for value in node.outputs:
                first = whileback.show(model, node=str(value.name)).partition("\n")[0]
                assert f": {node.op_type} in " in first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node": "los"}, "The model has no node or value 'los': did you mean 'loss'?"),
        (
            {"everything": True, "depth": 1},
            "Show everything, or one node, or down to a depth: not both.",
        ),
        ({"depth": -1}, "A depth of -1 is no number of levels. Give one from 0."),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        whileback.show(parse(POWER), **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_json() -> None:
    told = json.loads(json.dumps(summarize(gradient()).to_dict()))
    assert told["gradients"] == {"w": "w_grad", "x": "x_grad"}
    assert told["inputs"][2] == {"name": "w", "type": "FLOAT[2]", "default": "[0.5, 2.0]"}
    assert told["blocks"][0]["bodies"] == {"body": 1}
    assert told["blocks"][0]["tape"]["rows"][0]["name"] == "v"
    assert told["blocks"][1]["source"] == "Loop"
