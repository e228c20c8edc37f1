"""Conformance case 19: a name inside of a body equals one outside."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.errors import GraphError
from whileback.gradient import vjp

HIDDEN = """(float q, float w) => (float y) {
  n = Constant <value = int64 {3}> ()
  x = Exp (q)
  z = Loop (n, , x) <body = b (int64 i, bool c, float x) => (bool d, float r) {
    d = Identity (c) r = Mul (x, w) }>
  y = Add (z, x) }"""


def test_input_of_a_body_hides_an_outer_value() -> None:
    outputs = pullback(HIDDEN, "y", "q w")(q=0.3, w=0.5, y_grad=1)
    e = np.exp(0.3)
    assert_numbers(outputs, y=1.125 * e, q_grad=1.125 * e, w_grad=0.75 * e)


def test_renamed_model_has_the_same_gradient() -> None:
    renamed = HIDDEN.replace("float x)", "float v)").replace("r = Mul (x", "r = Mul (v")
    want, got = (pullback(text, "y", "q")(q=0.3, w=0.5, y_grad=1) for text in (renamed, HIDDEN))
    np.testing.assert_array_equal(got["q_grad"], want["q_grad"])


def test_hidden_twice_at_different_depths() -> None:
    assert_gradient(
        """(float x, float w, int64 n) => (float y) {
          y = Loop (n, , x) <body = a (int64 i, bool c, float x) => (bool d, float r) {
            d = Identity (c)
            s = Loop (n, , x) <body = b (int64 i, bool c, float x) => (bool e, float t) {
              e = Identity (c) t = Mul (x, w) }>
            r = Add (s, x) }> }""",
        ["y"],
        ["x", "w"],
        {"n": 2},
    )


def test_initializer_of_a_branch_hides_an_outer_value() -> None:
    """Each scope reads its own: the outer `w` has no part in the branch."""
    outputs = pullback(
        """(float[2] x, float[2] w, bool c) => (float[2] y) {
          z = If (c) <then_branch = t () => (float[2] p) <float[2] w = {5, 6}> { p = Mul (x, w) },
                      else_branch = e () => (float[2] p) { p = Neg (x) }>
          y = Mul (z, w) }""",
        "y",
        "x w",
    )(x=[1, 2], w=[3, 4], c=True, y_grad=[1, 1])
    assert_numbers(outputs, y=[15, 48], x_grad=[15, 24], w_grad=[5, 12])


def test_row_of_a_scan_hides_its_stack() -> None:
    """The stack has one rank more than the row that has its name."""
    outputs = pullback(
        """(float s, float[3] x) => (float t, float[3] y) {
          t, y = Scan <num_scan_inputs = 1, body = b (float s, float x) => (float r, float p) {
            r = Mul (s, x) p = Identity (r) }> (s, x) }""",
        "t y",
        "s x",
    )(s=2, x=[1, 2, 3], t_grad=1, y_grad=[1, 10, 100])
    assert_numbers(outputs, t=12, y=[2, 4, 12], s_grad=627, x_grad=[1254, 626, 404])


@pytest.mark.parametrize("c", [True, False])
def test_sibling_branches_use_the_same_names(c: bool) -> None:
    assert_gradient(
        """(float[2] x, bool c) => (float[2] y) {
          y = If (c) <then_branch = t () => (float[2] r) { p = Exp (x) r = Mul (p, x) },
                      else_branch = e () => (float[2] r) { p = Sin (x) r = Mul (p, p) }> }""",
        ["y"],
        ["x"],
        {"c": c},
    )


@pytest.mark.parametrize("place", ["before", "input", "initializer"])
def test_node_that_redefines_an_outer_name_is_refused(place: str) -> None:
    name = {"before": "a", "input": "x", "initializer": "w"}[place]
    model = parse(
        f"""(float[2] x, bool c) => (float[2] y) <float[2] w = {{1, 2}}> {{
          a = Mul (x, w)
          [branching] y = If (c) <
            then_branch = yes () => (float[2] p) {{ [twice] {name} = Exp (x) p = Neg ({name}) }},
            else_branch = no () => (float[2] q) {{ q = Neg (a) }}> }}"""
    )
    with pytest.raises(GraphError) as error:
        vjp(model, of=["y"], wrt=["x"])
    assert str(error.value) == (
        f"Node 'twice' (Exp) in graph 'yes' defines '{name}', which a graph around it defines "
        "already; a name must have one definition. Rename this output."
    )


def test_name_that_is_defined_outside_only_later_may_be_used() -> None:
    """ONNX Runtime and the checker accept it: the outer name is not known yet."""
    outputs = pullback(
        """(float[2] x, bool c) => (float[2] y) {
          z = If (c) <then_branch = t () => (float[2] p) { w = Exp (x) p = Neg (w) },
                      else_branch = e () => (float[2] p) { p = Neg (x) }>
          w = Add (z, x)
          y = Mul (w, w) }""",
        "y",
        "x",
    )(x=[0, 0], c=True, y_grad=[1, 2])
    assert_numbers(outputs, y=[1, 1], x_grad=[0, 0])
