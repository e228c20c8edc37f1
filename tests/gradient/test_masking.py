from tests.judge import parse

from whileback.gradient.masking import masked
from whileback.graph.normalize import normalize


def names(text):
    return {value.name for value in masked(parse(text).graph)}


def test_what_may_be_infinite_where_a_choice_depends_on_it():
    text = """(float x, bool c) => (float y, float z) {
      n = Neg(x) a = Exp(n) b = Sin(a) t = Tanh(b) d = Where(c, t, x) y = Neg(d) z = Log(x)
    }"""
    assert names(text) == {"a", "b"}


def test_a_choice_in_a_body_reaches_all_that_the_body_computes():
    text = """(float x, int64 n) => (float y) {
      e = Exp(x)
      y = Loop(n, "", e) <body = trip (int64 i, bool go, float v) => (bool on, float w) {
        on = Identity(go) a = Sin(v) m = Max(x, x) w = Add(m, a)
      }>
    }"""
    assert names(text) == {"e", "v", "a", "w"}


def test_what_becomes_infinite_in_an_earlier_trip():
    text = """(float x, int64 n, bool c) => (float y) {
      r = Loop(n, "", x) <body = trip (int64 i, bool go, float v) => (bool on, float w) {
        on = Identity(go) a = Sin(v) w = Exp(a)
      }>
      y = Where(c, r, x)
    }"""
    assert names(text) == {"v", "a", "w", "r"}


def test_without_a_choice_nothing_is_masked():
    assert names("(float x) => (float y) { a = Exp(x) y = Relu(a) }") == set()


def test_choices_among_whole_numbers_mask_nothing():
    text = """(float x, int64 n) => (float y) {
      one = Constant<value_int = 1>() most = Max(n, one)
      y = Loop(most, "", x) <body = trip (int64 i, bool go, float v) => (bool on, float w) {
        on = Identity(go) k = Min(i, n) f = Cast<to = 1>(k) w = Div(v, f)
      }>
    }"""
    graph = normalize(parse(text)).graph
    assert masked(graph) == set()
