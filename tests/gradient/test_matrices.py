"""`jacobian` and `hessian`, forward and backward, against products with them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.golden.models import MODELS
from tests.judge import parse

from whileback.checking.point import Point
from whileback.checking.truth import compile_exactly, widened
from whileback.engines import compile
from whileback.errors import ArgumentError, WhilebackWarning
from whileback.gradient import gradient, hessian, jacobian, names
from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard

WIDE = "(float[2] x, float[3,2] w) => (float[3] y) { h = MatMul(w, x) y = Tanh(h) }"
LOOP = """(int64 n, float[2] x) => (float[2] y) {
  y = Loop(n, , x) <body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u) {
    go = Identity(c)
    %s
  }>
}"""
INPUTS = {"broadcast_unknown": {"x": [[1, 2, 3], [4, 5, 6]], "b": [7, 8, 9]}}


def assert_jacobian(
    model: ir.Model | str,
    of: list[str],
    wrt: list[str],
    inputs: dict[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """Assert that, times cotangents, it is what differences say along every element."""
    model = parse(model) if isinstance(model, str) else model
    full = jacobian(model, of, wrt)
    point = Point(model, of, wrt, inputs or {}, np.random.default_rng(0))
    exact = compile_exactly(full, point.feeds)(widened(point.feeds))
    own = compile(full)(point.feeds)
    for x, value in point.wrt.items():
        total = np.zeros(value.shape)
        for y, cotangent in point.cotangents.items():
            block = exact[names(full)[f"{y}/{x}"]]
            assert block.shape == cotangent.shape + value.shape
            scale = np.max(np.abs(block), initial=0)
            found = own[names(full)[f"{y}/{x}"]]
            assert found.shape == block.shape
            np.testing.assert_allclose(found, block, rtol=0, atol=5e-5 * scale)
            total += np.tensordot(cotangent, block, axes=cotangent.ndim)
        for slope in point.slopes(x, 64, 3):
            got, want = np.vdot(total, slope.direction), slope.derivative
            assert abs(got - want.value) <= 4 * want.error + 1e-6 * np.max(np.abs(total)), slope
    return own


def trips(model: ir.Model) -> list[int]:
    """Return how often the loops of the main graph run, where that is known."""
    limits = (known_ints(node.inputs[0]) for node in model.graph if is_standard(node, "Loop"))
    return [limit[0] for limit in limits if limit]


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ("loop_newton",)])
@pytest.mark.filterwarnings("ignore::whileback.errors.WhilebackWarning")
def test_recorded_models(name: str) -> None:
    text, of, wrt = MODELS[name]
    assert_jacobian(text, of, wrt, INPUTS.get(name))


def test_names_and_shapes() -> None:
    full = jacobian(parse(WIDE), "y", ["w", "x"])
    assert names(full) == {"y/w": "y_w_jacobian", "y/x": "y_x_jacobian"}
    assert [str(v.name) for v in full.graph.outputs] == ["y", "y_w_jacobian", "y_x_jacobian"]
    assert [list(v.shape or []) for v in full.graph.outputs[1:]] == [[3, 3, 2], [3, 2]]


def test_the_shorter_way() -> None:
    """Over the columns if these are no more than the rows."""
    assert trips(jacobian(parse(WIDE), "y", "x")) == [2]
    assert trips(jacobian(parse(WIDE), "y", ["w", "x"])) == [3]
    assert trips(jacobian(parse(WIDE), ["y", "h"], ["x"])) == [2]
    for wrt in (["x"], ["w", "x"]):
        assert_jacobian(WIDE, ["y"], wrt)
        assert_jacobian(WIDE, ["h", "y"], wrt)


def test_what_is_the_same_in_every_trip_is_computed_once() -> None:
    for wrt in ("x", "w"):
        for node in jacobian(parse(WIDE), "y", wrt).graph:
            if is_standard(node, "Loop"):
                body = node.attributes["body"].as_graph()
                assert not any(is_standard(each, "Tanh", "Sub") for each in body)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("size", ["N", "2"])
def test_loops(size: str, count: int) -> None:
    model = (LOOP % "u = Sin(v)").replace("float[2]", f"float[{size}]")
    assert_jacobian(model, ["y"], ["x"], {"n": count, "x": [0.5, -1.5]})


def test_numbers_drawn_in_a_loop_are_those_of_the_values() -> None:
    drawn = "r = RandomUniform<shape = [2], low = 0.5, high = 2.0>() u = Mul(v, r)"
    result = compile(jacobian(parse(LOOP % drawn), "y", "x"))(n=3, x=[1, 2])
    np.testing.assert_allclose(np.diag(result["y_x_jacobian"]), result["y"] / [1, 2], rtol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [("N", "N"), ("0", "0"), ("0", "3"), ("3", "0")])
def test_no_elements(rows: str, columns: str) -> None:
    model = parse(
        f"(float[{rows}] x, float[{columns}] w) => (float[{rows},{columns}] y) "
        "{ one = Constant<value_ints = [1]>() a = Unsqueeze(x, one) y = Mul(a, w) }"
    )
    sizes = [0 if size == "N" else int(size) for size in (rows, columns)]
    x, w = (np.ones(size, np.float32) for size in sizes)
    result = compile(jacobian(model, "y", ["x", "w"]))(x=x, w=w)
    assert result["y_x_jacobian"].shape == (*sizes, sizes[0])
    assert result["y_w_jacobian"].shape == (*sizes, sizes[1])


def test_types() -> None:
    """A block has the type of its rows."""
    model = "(float[2] x) => (double[2] y, double[1] z) { d = Cast<to = 11>(x) y = Exp(d) %s }"
    model %= "zero = Constant<value_ints = [0]>() z = ReduceSum(y, zero)"
    for of in ("y", "z"):
        block = compile(jacobian(parse(model), of, "x"))(x=[0, 1])[f"{of}_x_jacobian"]
        assert block.dtype == np.float64
        np.testing.assert_allclose(np.diag(block) if of == "y" else block[0], np.exp([0, 1]))


def test_blocks_of_zeros() -> None:
    model = "(float[2] x, float[2] w) => (float[2] y, float[2] z) { y = Exp(x) z = Exp(w) }"
    result = compile(jacobian(parse(model), ["y", "z"], ["x", "w"]))(x=[0, 0], w=[0, 0])
    for name in ("y_w_jacobian", "z_x_jacobian"):
        assert result[name].tolist() == [[0, 0], [0, 0]]


def test_what_nothing_depends_on() -> None:
    message = r"^No value in of= depends on 'w': its gradient is zero everywhere\.$"
    model = parse("(float[2] x, float w) => (float[2] y) { y = Exp(x) }")
    with pytest.warns(WhilebackWarning, match=message):
        full = jacobian(model, "y", ["x", "w"])
    assert compile(full)(x=[1, 2], w=3)["y_w_jacobian"].tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore::whileback.errors.WhilebackWarning")
@pytest.mark.parametrize("name", ["dense", "loop_recurrent", "if_other_weights", "loop_nested"])
def test_second_derivatives_of_recorded_models(name: str) -> None:
    text, of, wrt = MODELS[name]
    slopes = gradient(parse(text), of, wrt, reduce="sum")
    found = assert_jacobian(slopes, [names(slopes)[x] for x in wrt], wrt)
    assert len(found) > len(wrt) ** 2


def test_a_hessian() -> None:
    model = parse("""(float[2] x, float w) => (float y) {
      p = Mul(x, x) q = Mul(p, w) y = ReduceSum<keepdims = 0>(q)
    }""")
    full = hessian(model, "y", ["x", "w"])
    assert names(full) == {f"{a}/{b}": f"{a}_{b}_hessian" for a in "xw" for b in "xw"}
    result = compile(full)(x=[3, 5], w=7)
    assert result["x_grad"].tolist() == [42, 70]
    assert result["x_x_hessian"].tolist() == [[14, 0], [0, 14]]
    assert result["x_w_hessian"].tolist() == result["w_x_hessian"].tolist() == [6, 10]
    assert result["w_w_hessian"].tolist() == 0


def test_third_derivatives() -> None:
    full = jacobian(
        hessian(parse("(float x) => (float y) { y = Sin(x) }"), "y", "x"), "x_x_hessian", "x"
    )
    assert compile(full)(x=0)["x_x_hessian_x_jacobian"] == -1


def test_names_that_are_not_there() -> None:
    for call in (jacobian, hessian):
        with pytest.raises(ArgumentError, match=r"^of= names 'z', but the main graph"):
            call(parse(WIDE), "z", "x")
        with pytest.raises(ArgumentError, match=r"^wrt= names 'z', but the main graph"):
            call(parse(WIDE), "y", "z")


@pytest.mark.filterwarnings("ignore::whileback.errors.WhilebackWarning")
@pytest.mark.parametrize("name", [n for n in MODELS if "loop" in n or "scan" in n or "if" in n])
def test_both_ways_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, which are computed forward, and rows, which are computed backward."""
    text, of, wrt = MODELS[name]
    model = parse(text)
    feeds = Point(model, of, wrt, INPUTS.get(name, {}), np.random.default_rng(0)).feeds
    runs, matrices = [], sys.modules[jacobian.__module__]
    for forward in (True, False):
        monkeypatch.setattr(matrices, "_goes_forward", lambda _, way=forward: way)
        full = jacobian(model, of, wrt)
        runs.append(compile_exactly(full, feeds)(widened(feeds)))
    for key, rows in runs[1].items():
        np.testing.assert_allclose(runs[0][key], rows, rtol=1e-9, atol=1e-12, err_msg=key)
