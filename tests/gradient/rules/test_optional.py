import numpy as np
import pytest
from tests.judge import assert_gradient

A = np.array([[0.5, -1.25], [2.0, 0.75], [1.5, -0.25]], np.float32)


@pytest.mark.parametrize("condition", [True, False])
def test_an_optional_tensor_of_one_branch(condition: bool) -> None:
    text = """(float[3,2] x, bool c) => (float[2] y) {
      o = If(c) <
        then_branch = t1 () => (optional(float[3,2]) r) { q = Mul(x, x) r = Optional(q) },
        else_branch = t2 () => (optional(float[3,2]) v) { v = Optional<type = float[3,2]>() }>
      h = OptionalHasElement(o)
      i = Constant<value_int = 0>()
      y = If(h) <
        then_branch = t3 () => (float[2] a) { g = OptionalGetElement(o) k = Mul(g, g)
                                              a = Gather(k, i) },
        else_branch = t4 () => (float[2] b) { b = Gather(x, i) }>
    }"""
    inputs = {"x": A, "c": np.array(condition)}
    assert_gradient(text, ["y"], ["x"], inputs, second_order=True)


@pytest.mark.parametrize("condition", [True, False])
def test_an_optional_sequence_read_twice(condition: bool) -> None:
    text = """(float[3,2] x, float[2] z, bool c) => (float[2] y) {
      s = SplitToSequence<axis = 0, keepdims = 0>(x)
      o = If(c) <
        then_branch = t1 () => (optional(seq(float[2])) r) { r = Optional(s) },
        else_branch = t2 () => (optional(seq(float[2])) v) {
          v = Optional<type = seq(float[2])>() }>
      h = OptionalHasElement(o)
      i = Constant<value_int = 1>()
      p = If(h) <
        then_branch = t3 () => (float[2] a) { g = OptionalGetElement(o) a = SequenceAt(g, i) },
        else_branch = t4 () => (float[2] b) { b = Identity(z) }>
      q = If(h) <
        then_branch = t5 () => (float[2] d) { k = OptionalGetElement(o) e = SequenceAt(k, i)
                                              d = Mul(e, e) },
        else_branch = t6 () => (float[2] f) { f = Mul(z, z) }>
      y = Mul(p, q)
    }"""
    inputs = {"x": A, "c": np.array(condition)}
    assert_gradient(text, ["y"], ["x", "z"], inputs, second_order=True)


def test_tensors_and_sequences_count_as_optionals_with_content() -> None:
    text = """(float[3,2] x) => (float[2] y) {
      a = OptionalGetElement(x)
      h = OptionalHasElement(a)
      f = CastLike(h, a)
      b = Mul(a, f)
      s = SplitToSequence<axis = 0, keepdims = 0>(b)
      t = OptionalGetElement(s)
      i = Constant<value_int = 1>()
      r = SequenceAt(t, i)
      y = Mul(r, r)
    }"""
    assert_gradient(text, ["y"], ["x"], {"x": A}, second_order=True)
