"""A gradient in two parts: the model's own run, and the way back."""

from tests.judge import parse

import whileback
from whileback.gradient.split import split

MODEL = """(float[N] x, float[N] w, int64 n) => (float[N] y, float[N] z) {
    e = Exp(x)
    y = Loop(n, "", e) <body = trip (int64 i, bool c, float[N] v) => (bool d, float[N] u) {
        d = Identity(c)
        p = Mul(v, w)
        u = Tanh(p)
    }>
    z = Sub(y, x)
}"""


def names(values):
    return [value.name for value in values]


def test_the_way_back_computes_nothing_again():
    model = parse(MODEL)
    whole = whileback.vjp(model, of=["y"], wrt=["x", "w"])
    first, second = split(whole, 2)
    assert names(first.graph.inputs) == ["x", "w", "n"]
    assert names(first.graph.outputs) == ["y", "z", "e", "v/tape"]
    assert [node.op_type for node in first.graph] == ["Exp", "Loop", "Sub"]
    assert names(second.graph.inputs) == ["w", "y_grad", "e", "y", "v/tape"]
    assert names(second.graph.outputs) == ["x_grad", "w_grad"]
    assert not {"Exp", "Loop"} & {node.op_type for node in second.graph}


def test_an_output_that_is_read_later_is_there_once():
    model = parse("(float[N] x) => (float[N] y) { y = Tanh(x) }")
    first, second = split(whileback.vjp(model, of="y", wrt="x"), 1)
    assert names(first.graph.outputs) == ["y"]
    assert [(v.name, str(v.shape)) for v in second.graph.inputs] == [
        ("y_grad", "[N]"),
        ("y", "[None]"),
    ]


def test_the_model_stays_as_it_is():
    whole = whileback.vjp(parse(MODEL), of=["y"], wrt=["x"])
    before = whileback.show(whole, everything=True)
    split(whole, 2)
    assert whileback.show(whole, everything=True) == before
