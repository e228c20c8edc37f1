"""Emitting nodes: constants, names, types, and sums over broadcast axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from whileback.engines import compile
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.shapes import Shapes, describe


def builder(*inputs: ir.Value) -> Builder:
    graph = ir.Graph(list(inputs), [], nodes=[], opset_imports={"": 21}, name="g")
    return Builder(graph, Names.of(graph), Shapes(graph.opset_imports))


def value(
    name: str, shape: list[int | str] | None, dtype: ir.DataType = ir.DataType.FLOAT
) -> ir.Value:
    return ir.val(name, dtype, shape)


def test_new_values_have_types_and_shapes() -> None:
    x = value("x", ["N", 4])
    assert describe(builder(x).Transpose(x, perm=[1, 0])) == "FLOAT[4,N]"


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (2, "INT64[]"),
        ([1, 2], "INT64[2]"),
        (0.5, "DOUBLE[]"),
        (True, "BOOL[]"),
        (np.zeros((2, 0), np.int32), "INT32[2,0]"),
    ],
)
def test_numbers_become_constants(operand: object, expected: str) -> None:
    x = value("x", [2], ir.DataType.DOUBLE)
    constant = builder(x).value(operand, like=x)  # type: ignore[arg-type]
    assert constant is not None
    assert describe(constant) == expected


def test_equal_constants_are_one_and_lie_in_the_outermost_graph() -> None:
    op = builder()
    inner = op.inside("body").inside("deeper")
    assert inner.constant(np.ones(3, np.float32)) is op.constant(np.ones(3, np.float32))
    assert [v.name for v in op.graph.initializers.values()] == ["constant"]


def test_numbers_of_other_types_are_other_constants() -> None:
    op = builder()
    assert op.constant(0, ir.DataType.INT64) is not op.constant(0, ir.DataType.FLOAT)
    assert op.constant(0.0) is not op.constant(-0.0)


def test_nodes_are_named_after_their_origin() -> None:
    x = value("x", [2])
    op = builder(x)
    op.origin = ir.node("Sin", [x], name="wave")
    assert op.Neg(x).name == "wave/grad/Neg"
    again = op.Neg(x)
    assert again.name == "wave/grad/Neg_1"
    producer = again.producer()
    assert producer is not None
    assert producer.metadata_props["whileback.from"] == "wave"


SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 3), (1, 3)),
    ((2, 3), (2, 1)),
    ((2, 3), ()),
    ((4, 2, 3), (2, 1)),
    ((0, 3), (1, 3)),
    ((2, 3), (1,)),
]


@pytest.mark.parametrize("known", ["static", "symbolic", "rank", "nothing"])
@pytest.mark.parametrize(("big", "small"), SHAPES)
def test_unbroadcast_undoes_broadcasting(
    big: tuple[int, ...], small: tuple[int, ...], known: str
) -> None:
    """⟨g, broadcast(x)⟩ = ⟨unbroadcast(g), x⟩ for every x."""

    def declared(shape: tuple[int, ...], letter: str) -> list[int | str] | None:
        symbols = [f"{letter}{i}" if known == "rank" or n > 1 else n for i, n in enumerate(shape)]
        return {"static": list(shape), "symbolic": symbols, "rank": symbols, "nothing": None}[known]

    g, x = value("g", declared(big, "a")), value("x", declared(small, "b"))
    op = builder(g, x)
    op.graph.outputs.append(op.Identity(op.unbroadcast(g, x)))
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.normal(size=shape).astype("f") for name, shape in (("g", big), ("x", small))
    }
    (result,) = compile(ir.Model(op.graph, ir_version=10))(arrays).values()
    assert result.shape == small
    expected = np.sum(arrays["g"] * np.broadcast_to(arrays["x"], big))
    assert np.sum(result * arrays["x"]) == pytest.approx(expected, abs=1e-5)


def test_unbroadcast_emits_nothing_for_equal_shapes() -> None:
    g, x = value("g", ["N", 3]), value("x", ["N", 3])
    op = builder(g, x)
    assert op.unbroadcast(g, x) is g


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BFLOAT16])
def test_zeros_do_not_read_the_value(dtype: ir.DataType) -> None:
    x = value("x", ["N"], dtype)
    op = builder(x)
    op.graph.outputs.append(op.zeros_like(x))
    model = ir.Model(op.graph, ir_version=10)
    (zeros,) = compile(model)(x=np.array([np.inf, np.nan], dtype.numpy())).values()
    assert zeros.dtype == dtype.numpy()
    assert zeros.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.BOOL, ir.DataType.INT64])
@pytest.mark.parametrize(("shape", "target"), [([1], [0]), ([0, 1], [0, 0]), ([], [2, 0])])
def test_expanding_to_no_elements(dtype: ir.DataType, shape: list[int], target: list[int]) -> None:
    x = value("x", [*shape], dtype)
    op = builder(x)
    op.graph.outputs.append(op.Identity(op.Identity(op.Expand(x, target))))
    (result,) = compile(ir.Model(op.graph, ir_version=10))(
        x=np.zeros(shape, dtype.numpy())
    ).values()
    assert list(result.shape) == target


def test_a_graph_returns_values_of_its_own_each_once() -> None:
    x = value("x", [2])
    outer = builder(x)
    op = outer.inside("body")
    made = op.Neg(x)
    results = op.own([made, made, x, outer.Neg(x)])
    assert results[0] is made
    assert len(set(results)) == 4
    assert [op.graph.index(result.producer()) for result in results] == [0, 1, 2, 3]


def test_attributes_of_the_builder_are_operators_only() -> None:
    with pytest.raises(AttributeError):
        builder().lower_case  # noqa: B018
