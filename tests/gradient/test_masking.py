from tests.judge import parse

from whileback.gradient.masking import masked


def names(text):
    return {value.name for value in masked(parse(text).graph)}


def test_all_that_a_choice_depends_on():
    text = """(float x, bool c) => (float y, float z) {
      a = Exp(x) b = Log(a) d = Where(c, b, x) y = Neg(d) z = Sin(a) u = Cos(a)
    }"""
    assert names(text) == {"x", "c", "a", "b"}


def test_a_choice_in_a_body_reaches_all_that_the_body_computes():
    text = """(float x, int64 n) => (float y) {
      e = Exp(x)
      y = Loop(n, "", e) <body = trip (int64 i, bool go, float v) => (bool on, float w) {
        on = Identity(go) a = Sin(v) m = Max(a, x) w = Cos(m)
      }>
    }"""
    assert {"x", "n", "e", "a", "m", "w", "v"} <= names(text)


def test_without_a_choice_nothing_is_masked():
    assert names("(float x) => (float y) { a = Exp(x) y = Relu(a) }") == set()
