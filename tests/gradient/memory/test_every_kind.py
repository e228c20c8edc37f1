"""Every kind of value that grows or shrinks, and every kind of buffer, at 0, 1, 7 and 4000 trips.

Finite differences judge few trips. Many are judged by a list of rows in Python, whose derivatives
come from a step along the imaginary axis; what a trip costs, by what is kept and done in a trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp
from whileback.gradient.memory.strategies import Memory
from whileback.graph.scopes import is_loop, loop_view, walk
from whileback.graph.tape import tape_of

# Where trips read all rows, one array.
Rows = list[np.ndarray] | np.ndarray
# From the rows, what is carried besides, the weights and the number of the trip: the next of both.
Trip = Callable[[Rows, np.ndarray, np.ndarray, int], tuple[Rows, np.ndarray]]

CONSTANTS = """
    zero = Constant<value_ints = [0]>()
    one = Constant<value_ints = [1]>()
    two = Constant<value_ints = [2]>()
    minus = Constant<value_ints = [-1]>()
    end = Constant<value_ints = [9223372036854775807]>()
    pair = Constant<value_ints = [1, 1]>()
    s0 = Constant<value_int = 0>()
    s1 = Constant<value_int = 1>()
    s2 = Constant<value_int = 2>()
    s3 = Constant<value_int = 3>()
    last = Constant<value_int = -1>()
    half = Constant<value = double {0.5}>()"""
LOOP = """(int64 M, double[1,2] h0, double[1,2] a, double[{start}] x)
    => (double[1,2] h, double[{result}] v) {{
  {before}
  h, {name} = Loop(M, , h0, {first})
    <body = b (int64 i, bool c, double[1,2] s, {type} p)
      => (bool d, double[1,2] t, {type_after} q) {{
    d = Identity(c)
    {constants}
    {body}
  }}>
  {after}
}}"""
OWN = " m = Mul(s, a) m1 = Add(m, half) t = Sin(m1) "
OF_L = " m = Mul(l, a) m1 = Mul(s, half) m2 = Add(m, m1) t = Sin(m2) "


@dataclass(frozen=True)
class Kind:
    """A model, and what it computes.

    Attributes:
        form: what the rows are in.
        body: the operators of a trip.
        trip: the same on a list of rows.
        gone: how operators begin that no body holds any more: they would cost more than a row.
        spare: how many rows there are in the beginning besides one for each trip that takes one.
        reads_all: whether each trip reads all rows.
        slow: why it is run for 400 trips instead of 4000.
    """

    form: str
    body: str
    trip: Trip
    gone: str = ""
    spare: int = 2
    reads_all: bool = False
    slow: str = ""

    @property
    def is_wide(self) -> bool:
        """Tell whether the rows lie along the last axis."""
        return self.form in ("columns", "wide")

    @property
    def takes(self) -> bool:
        """Tell whether there are as many rows in the beginning as there are trips."""
        return self.form in ("shrinks", "buffer", "columns", "list")

    def text(self) -> str:
        """Return the model."""
        values = {"before": "", "after": "", "first": "x", "name": "v", "body": self.body}
        start, before, after, result = "2,2", "P,2", "Q,2", "K,2"
        if self.form == "shrinks":
            start = "N,2"
        elif self.form == "buffer":
            start = before = after = result = "N,2"
        elif self.form == "columns":
            start = before = after = result = "2,N"
        elif self.form == "wide":
            start, before, after, result = "2,2", "2,P", "2,Q", "2,K"
        values |= {"type": f"double[{before}]", "type_after": f"double[{after}]"}
        if self.form in ("list", "sequence"):
            start = "N,2" if self.form == "list" else start
            values["type"] = values["type_after"] = "seq(double[1,2])"
            values |= {"first": "v0", "name": "vs"}
            values["before"] = "v0 = SplitToSequence<axis = 0>(x)"
            if self.form == "sequence":
                values["before"] = """k0 = Constant<value_ints = [0]>()
                    k1 = Constant<value_ints = [1]>() x0 = Gather(x, k0) x1 = Gather(x, k1)
                    v0 = SequenceConstruct(x0, x1)"""
            values["after"] = "v = ConcatFromSequence<axis = 0>(vs)"
        return LOOP.format(start=start, result=result, constants=CONSTANTS, **values)

    def inputs(self, trips: int) -> dict[str, np.ndarray]:
        """Return random inputs; the weights keep what is carried from growing."""
        rng = np.random.default_rng(trips)
        count = trips + self.spare if self.takes else 2
        x = rng.uniform(0.5, 1.0, (count, 2))
        return {
            "M": np.int64(trips),
            "h0": rng.uniform(-1, 1, (1, 2)),
            "a": rng.uniform(0.3, 0.6, (1, 2)),
            "x": x.T.copy() if self.is_wide else x,
        }

    def run(self, h0: np.ndarray, a: np.ndarray, x: np.ndarray, trips: int) -> np.ndarray:
        """Return the rows after the loop, and what is carried besides as the last one."""
        rows, s = x if self.reads_all else list(x), h0[0]
        for trip in range(trips):
            rows, s = self.trip(rows, s, a[0], trip)
        return np.stack([*rows, s])


def own(s: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.sin(s * a + 0.5)


def of_l(row: np.ndarray, s: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.sin(row * a + s * 0.5)


def grows(put: Callable[[Rows, np.ndarray, np.ndarray, int], Rows]) -> Trip:
    """A trip that puts the value after it, and maybe that before, into the rows."""

    def trip(rows: Rows, s: np.ndarray, a: np.ndarray, i: int) -> tuple[Rows, np.ndarray]:
        t = own(s, a)
        return put(rows, s, t, i), t

    return trip


def reads(
    read: Callable[[Rows, int], np.ndarray], put: Callable[[Rows, np.ndarray, int], Rows]
) -> Trip:
    """A trip that reads a row, or something else of the rows, and changes them."""

    def trip(rows: Rows, s: np.ndarray, a: np.ndarray, i: int) -> tuple[Rows, np.ndarray]:
        t = of_l(read(rows, i), s, a)
        return put(rows, t, i), t

    return trip


def append(rows: Rows, t: np.ndarray, _: int) -> Rows:
    return [*rows, t]


def write(rows: Rows, t: np.ndarray, i: int) -> Rows:
    return [*rows[:i], t, *rows[i + 1 :]]


def joined(*parts: np.ndarray) -> np.ndarray:
    return np.vstack(parts)


def attention(rows: Rows, s: np.ndarray, a: np.ndarray, i: int) -> tuple[Rows, np.ndarray]:
    e = rows[:, 0] * s[0] + rows[:, 1] * s[1]
    g = e * e
    t = of_l((g[:, None] * rows).sum(axis=0) / g.sum(), s, a)
    return joined(rows, t), t


FIRST = "n = Shape<end = 1>(p) n1 = Squeeze(n)"
ROW_I = "k = Reshape(i, pair) q = ScatterND(p, k, t)"
KINDS = {
    "appended": Kind(
        "grows", OWN + "q = Concat<axis = 0>(p, t)", grows(lambda p, s, t, i: [*p, t]), "Concat"
    ),
    "put in front": Kind(
        "grows", OWN + "q = Concat<axis = 0>(t, p)", grows(lambda p, s, t, i: [t, *p]), "Concat"
    ),
    "appended along the last axis": Kind(
        "wide",
        OWN + "u = Transpose<perm = [1, 0]>(t) q = Concat<axis = -1>(p, u)",
        grows(lambda p, s, t, i: [*p, t]),
        "Concat",
    ),
    "two rows": Kind(
        "grows", OWN + "q = Concat<axis = 0>(p, t, s)", grows(lambda p, s, t, i: [*p, t, s])
    ),
    "at both ends": Kind(
        "grows",
        OWN + "q = Concat<axis = 0>(s, t, p, t)",
        grows(lambda p, s, t, i: [s, t, *p, t]),
    ),
    "in two steps": Kind(
        "grows",
        OWN + "r = Concat<axis = 0>(p, t) q = Concat<axis = 0>(s, r)",
        grows(lambda p, s, t, i: [s, *p, t]),
    ),
    "the last row is read": Kind(
        "grows",
        "l = Gather(p, minus)" + OF_L + "q = Concat<axis = 0>(p, t)",
        reads(lambda p, i: p[-1], append),
        "Concat Gather",
    ),
    "the last but one is read": Kind(
        "grows",
        "k = Mul(minus, two) l = Gather(p, k)" + OF_L + "q = Concat<axis = 0>(p, t)",
        reads(lambda p, i: p[-2], append),
    ),
    "the row of the trip's number is read": Kind(
        "grows",
        "k = Unsqueeze(i, zero) l = Gather(p, k)" + OF_L + "q = Concat<axis = 0>(p, t)",
        reads(lambda p, i: p[i], append),
        "Concat Gather",
    ),
    "the last rows are read": Kind(
        "grows",
        "k = Mul(minus, two) l0 = Slice(p, k, end, zero) l = ReduceMean(l0, zero)"
        + OF_L
        + "q = Concat<axis = 0>(p, t)",
        reads(lambda p, i: (p[-1] + p[-2]) / 2, append),
    ),
    "the size is read": Kind(
        "grows",
        OWN + "n = Shape(p) o = Shape(q) e = Equal(n, o) q = Concat<axis = 0>(p, t)",
        grows(lambda p, s, t, i: [*p, t]),
        "Concat",
    ),
    "all is read": Kind(
        "grows",
        "l = ReduceMean(p, zero)" + OF_L + "q = Concat<axis = 0>(p, t)",
        reads(lambda p, i: np.mean(p, axis=0), lambda p, t, i: joined(p, t)),
        reads_all=True,
    ),
    "all is read by attention": Kind(
        "grows",
        """k = Transpose<perm = [1, 0]>(p) e = MatMul(s, k) g = Mul(e, e) w = ReduceSum(g, one)
        f = MatMul(g, p) l = Div(f, w)"""
        + OF_L
        + "q = Concat<axis = 0>(p, t)",
        attention,
        reads_all=True,
    ),
    "padded": Kind(
        "grows",
        OWN
        + """pads = Constant<value_ints = [1, 0, 2, 0]>() u = Gather<axis = 1>(t, s0)
        value = Squeeze(u) q = Pad(p, pads, value)""",
        grows(lambda p, s, t, i: [*[np.full(2, t[0])], *p, *[np.full(2, t[0])] * 2]),
    ),
    "as many rows as the trip tells": Kind(
        "grows",
        OWN
        + """r = Mod(i, s3) k = Reshape(r, one) shape = Concat<axis = 0>(k, two)
        u = Expand(t, shape) q = Concat<axis = 0>(p, u)""",
        grows(lambda p, s, t, i: [*p, *[t] * (i % 3)]),
    ),
    "all rows decay": Kind(
        "grows",
        OWN + "r = Mul(p, half) q = Concat<axis = 0>(r, t)",
        lambda p, s, a, i: (joined(p / 2, own(s, a)), own(s, a)),
        reads_all=True,
    ),
    "grows in a branch": Kind(
        "grows",
        OWN
        + """r = Mod(i, s2) e = Cast<to = 9>(r)
        q = If(e) <then_branch = y () => (double[A,2] u) { u = Concat<axis = 0>(p, t) },
                   else_branch = z () => (double[B,2] w) { w = Identity(p) }>""",
        grows(lambda p, s, t, i: [*p, t] if i % 2 else p),
    ),
    "grows in a loop": Kind(
        "grows",
        """t, q = Loop(s2, , s, p) <body = e (int64 j, bool f, double[1,2] y, double[A,2] z)
          => (bool g, double[1,2] u, double[B,2] w) {
          g = Identity(f) m = Mul(y, a) m1 = Add(m, half) u = Sin(m1) w = Concat<axis = 0>(z, u)
        }>""",
        lambda p, s, a, i: ([*p, own(s, a), own(own(s, a), a)], own(own(s, a), a)),
    ),
    "the first row is taken": Kind(
        "shrinks",
        "l = Slice(p, zero, one, zero)" + OF_L + "q = Slice(p, one, end, zero)",
        reads(lambda p, i: p[0], lambda p, t, i: p[1:]),
    ),
    "the last row is taken": Kind(
        "shrinks",
        "l = Gather(p, minus)" + OF_L + "q = Slice(p, zero, minus, zero)",
        reads(lambda p, i: p[-1], lambda p, t, i: p[:-1]),
    ),
    "split": Kind(
        "shrinks",
        "n = Shape<end = 1>(p) n1 = Sub(n, one) k = Concat<axis = 0>(one, n1)"
        "l, q = Split<axis = 0>(p, k)" + OF_L,
        reads(lambda p, i: p[0], lambda p, t, i: p[1:]),
    ),
    "compressed": Kind(
        "shrinks",
        f"l = Gather(p, zero) {OF_L} {FIRST} r = Range(s0, n1, s1) ok = Greater(r, s0)"
        "q = Compress<axis = 0>(p, ok)",
        reads(lambda p, i: p[0], lambda p, t, i: p[1:]),
    ),
    "compressed by what is in it": Kind(
        "shrinks",
        f"l = Gather(p, zero) {OF_L} f = Gather<axis = 1>(p, s0) most = ReduceMax<keepdims = 0>(f)"
        "ok = Less(f, most) q = Compress<axis = 0>(p, ok)",
        reads(lambda p, i: p[0], lambda p, t, i: np.delete(p, p[:, 0].real.argmax(), axis=0)),
        reads_all=True,
    ),
    "fewer are picked": Kind(
        "shrinks",
        f"l = Gather(p, zero) {OF_L} {FIRST} r = Range(s1, n1, s1) q = Gather(p, r)",
        reads(lambda p, i: p[0], lambda p, t, i: p[1:]),
        "Range",
    ),
    "all but the last are picked": Kind(
        "shrinks",
        f"l = Gather(p, minus) {OF_L} n = Shape<end = 1>(p) n0 = Sub(n, one) n1 = Squeeze(n0)"
        "r = Range(s0, n1, s1) q = Gather(p, r)",
        reads(lambda p, i: p[-1], lambda p, t, i: p[:-1]),
        "Range",
    ),
    "those that are not zero": Kind(
        "shrinks",
        f"l = Gather(p, zero) {OF_L} {FIRST} r = Range(s0, n1, s1) z = NonZero(r)"
        "z1 = Squeeze(z, zero) q = Gather(p, z1)",
        reads(lambda p, i: p[0], lambda p, t, i: p[1:]),
    ),
    "element inserted": Kind(
        "sequence", OWN + "q = SequenceInsert(p, t)", grows(lambda p, s, t, i: [*p, t]), "Sequence"
    ),
    "element inserted in front": Kind(
        "sequence",
        OWN + "q = SequenceInsert(p, t, s0)",
        grows(lambda p, s, t, i: [t, *p]),
        "Sequence",
    ),
    "element inserted in the middle": Kind(
        "sequence",
        OWN + "n = SequenceLength(p) k = Div(n, s2) q = SequenceInsert(p, t, k)",
        grows(lambda p, s, t, i: [*p[: len(p) // 2], t, *p[len(p) // 2 :]]),
    ),
    "the last element is read": Kind(
        "sequence",
        "l = SequenceAt(p, last)" + OF_L + "q = SequenceInsert(p, t)",
        reads(lambda p, i: p[-1], append),
        "Sequence",
    ),
    "the element of the trip's number is read": Kind(
        "sequence",
        "l = SequenceAt(p, i)" + OF_L + "q = SequenceInsert(p, t)",
        reads(lambda p, i: p[i], append),
        "Sequence",
    ),
    "the element is found by the length": Kind(
        "sequence",
        "n = SequenceLength(p) k = Sub(n, s2) l = SequenceAt(p, k)"
        + OF_L
        + "q = SequenceInsert(p, t)",
        reads(lambda p, i: p[-2], append),
        "Sequence",
    ),
    "the middle element is read": Kind(
        "sequence",
        "n = SequenceLength(p) k = Div(n, s2) l = SequenceAt(p, k)"
        + OF_L
        + "q = SequenceInsert(p, t)",
        reads(lambda p, i: p[len(p) // 2], append),
        "Sequence",
    ),
    "a sequence is joined": Kind(
        "sequence",
        "j = ConcatFromSequence<axis = 0>(p) l = ReduceMean(j, zero)"
        + OF_L
        + "q = SequenceInsert(p, t)",
        reads(lambda p, i: np.mean(p, axis=0), lambda p, t, i: joined(p, t)),
        "Sequence",
        reads_all=True,
    ),
    "a sequence is joined the other way": Kind(
        "sequence",
        """j = ConcatFromSequence<axis = 1>(p)
        k = ConcatFromSequence<axis = -1, new_axis = 1>(p) l0 = ReduceMean<keepdims = 0>(k, minus)
        j1 = ReduceMean(j, one) l = Mul(l0, j1)"""
        + OF_L
        + "q = SequenceInsert(p, t, s0)",
        reads(lambda p, i: p.mean(axis=0) * p.mean(), lambda p, t, i: joined(t, p)),
        "Sequence",
        reads_all=True,
    ),
    "a stack": Kind(
        "sequence",
        "l = SequenceAt(p, last) r = SequenceErase(p)"
        + OF_L
        + "r1 = SequenceInsert(r, t) q = SequenceInsert(r1, s)",
        lambda p, s, a, i: ([*p[:-1], of_l(p[-1], s, a), s], of_l(p[-1], s, a)),
    ),
    "a queue": Kind(
        "sequence",
        "l = SequenceAt(p, s0) r = SequenceErase(p, s0)" + OF_L + "q = SequenceInsert(r, t)",
        reads(lambda p, i: p[0], lambda p, t, i: [*p[1:], t]),
    ),
    "the last element is taken": Kind(
        "list",
        "l = SequenceAt(p, last)" + OF_L + "q = SequenceErase(p)",
        reads(lambda p, i: p[-1], lambda p, t, i: p[:-1]),
        "Sequence",
    ),
    "the first element is taken": Kind(
        "list",
        "l = SequenceAt(p, s0)" + OF_L + "q = SequenceErase(p, s0)",
        reads(lambda p, i: p[0], lambda p, t, i: p[1:]),
        "Sequence",
    ),
    "written": Kind("buffer", OWN + ROW_I, grows(lambda p, s, t, i: write(p, t, i)), "ScatterND"),
    "the row before is read": Kind(
        "buffer",
        "k1 = Sub(i, s1) k0 = Unsqueeze(k1, zero) l = Gather(p, k0)" + OF_L + ROW_I,
        reads(lambda p, i: p[i - 1], write),
        "ScatterND Gather",
    ),
    "the third row before is read": Kind(
        "buffer",
        "k1 = Sub(i, s3) k0 = Unsqueeze(k1, zero) l = Gather(p, k0)" + OF_L + ROW_I,
        reads(lambda p, i: p[i - 3], write),
        "ScatterND Gather",
        spare=4,
    ),
    "row and row before are read": Kind(
        "buffer",
        """k1 = Sub(i, s1) k0 = Unsqueeze(k1, zero) l0 = Gather(p, k0) k2 = Unsqueeze(i, zero)
        l1 = Gather(p, k2) l2 = Add(l0, l1) l = Mul(l2, half)"""
        + OF_L
        + ROW_I,
        reads(lambda p, i: (p[i - 1] + p[i]) / 2, write),
        "ScatterND",
    ),
    "the next row is written": Kind(
        "buffer",
        """k0 = Reshape(i, pair) l = GatherND(p, k0) k1 = Add(s1, i) k = Reshape(k1, pair)"""
        + OF_L
        + "q = ScatterND(p, k, t)",
        reads(lambda p, i: p[i], lambda p, t, i: write(p, t, i + 1)),
        "ScatterND",
    ),
    "read after it is written": Kind(
        "buffer",
        "l = Mul(s, a) k = Reshape(i, pair) q = ScatterND(p, k, l) k1 = Sub(i, s1)"
        "k0 = Unsqueeze(k1, zero) y = Gather(q, k0) z = Gather(q, i) y1 = Add(y, z) t = Sin(y1)",
        lambda p, s, a, i: (
            write(p, s * a, i),
            np.sin(write(p, s * a, i)[i - 1] + write(p, s * a, i)[i]),
        ),
        "ScatterND",
    ),
    "a column is written": Kind(
        "columns",
        "k1 = Sub(i, s1) k0 = Unsqueeze(k1, zero) l0 = Gather<axis = 1>(p, k0)"
        "l = Transpose<perm = [1, 0]>(l0)"
        + OF_L
        + """u = Transpose<perm = [1, 0]>(t) shape = Constant<value_ints = [2, 1]>()
        k = Expand(i, shape) q = ScatterElements<axis = 1>(p, k, u)""",
        reads(lambda p, i: p[i - 1], write),
        "ScatterElements Gather",
    ),
    "another place is read": Kind(
        "buffer",
        "k1 = Div(i, s2) k0 = Unsqueeze(k1, zero) l = Gather(p, k0)" + OF_L + ROW_I,
        reads(lambda p, i: p[i // 2], write),
    ),
    "the whole buffer is read": Kind(
        "buffer",
        "l = ReduceMean(p, zero)" + OF_L + ROW_I,
        reads(lambda p, i: np.mean(p, axis=0), lambda p, t, i: joined(p[:i], t, p[i + 1 :])),
        reads_all=True,
    ),
    "written by a mask": Kind(
        "buffer",
        OWN + f"{FIRST} r = Range(s0, n1, s1) e = Equal(r, i) e1 = Unsqueeze(e, one)"
        "q = Where(e1, t, p)",
        grows(lambda p, s, t, i: write(p, t, i)),
        slow="Where looks at every row: 1.4 s at 4000 trips, of which 0.4 s for the model",
    ),
    "added to a row": Kind(
        "buffer",
        OWN + 'k = Reshape(i, pair) q = ScatterND<reduction = "add">(p, k, t)',
        grows(lambda p, s, t, i: write(p, p[i] + t, i)),
    ),
    "a window slides": Kind(
        "buffer",
        "l = Gather(p, zero)" + OF_L + "r = Slice(p, one, end, zero) q = Concat<axis = 0>(r, t)",
        reads(lambda p, i: p[0], lambda p, t, i: [*p[1:], t]),
    ),
    "a window slides and is read": Kind(
        "buffer",
        "g = Mul(p, p) l = ReduceMean(g, zero)"
        + OF_L
        + "r = Slice(p, one, end, zero) q = Concat<axis = 0>(r, t)",
        reads(lambda p, i: (p * p).mean(axis=0), lambda p, t, i: joined(p[1:], t)),
        reads_all=True,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_few_trips(name: str) -> None:
    kind = KINDS[name]
    for trips in (0, 1, 7):
        second = trips == 1 and bool(kind.gone)
        options = {"elements": 4, "directions": 1, "second_order": second}
        assert_gradient(kind.text(), ["h", "v"], ["h0", "a", "x"], kind.inputs(trips), **options)


@pytest.mark.parametrize("name", KINDS)
def test_many_trips(name: str) -> None:
    kind = KINDS[name]
    trips = 400 if kind.slow else 4000
    inputs = kind.inputs(trips)
    expected = kind.run(*values(inputs, kind), trips)
    seed = np.random.default_rng(0).normal(size=expected.shape)
    seeds = {"h_grad": seed[-1:], "v_grad": seed[:-1].T.copy() if kind.is_wide else seed[:-1]}
    model = vjp(parse(kind.text()), ["h", "v"], ["h0", "a", "x"])
    got = compile(model, threads=1)(inputs | seeds)
    v = got["v"].T if kind.is_wide else got["v"]
    np.testing.assert_allclose(np.concatenate([v, got["h"]]), expected, rtol=1e-9, atol=1e-12)
    for wrt, direction, slope in slopes(kind, inputs, seed):
        found = (got[f"{wrt}_grad"] * direction).sum()
        np.testing.assert_allclose(found, slope, rtol=1e-7, atol=1e-10)


def values(inputs: dict[str, np.ndarray], kind: Kind) -> tuple[np.ndarray, ...]:
    """Return what a kind runs on; the rows of a tensor that lies the other way are its columns."""
    return inputs["h0"], inputs["a"], inputs["x"].T if kind.is_wide else inputs["x"]


def slopes(
    kind: Kind, inputs: dict[str, np.ndarray], seed: np.ndarray
) -> Iterator[tuple[str, np.ndarray, np.floating]]:
    """Yield a direction for each input, and the derivative along it: f(x + εi) = f(x) + εi·f'."""
    step, rng = 1e-30, np.random.default_rng(1)
    for wrt in ("h0", "a", "x"):
        direction = rng.normal(size=inputs[wrt].shape)
        moved = inputs | {wrt: inputs[wrt] + 1j * step * direction}
        rows = kind.run(*values(moved, kind), int(inputs["M"]))
        yield wrt, direction, (rows.imag / step * seed).sum()


def loops(model: ir.Model) -> list[ir.Node]:
    return [node for node in walk(model.graph) if is_loop(node)]


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].gone])
def test_trips_do_no_more_than_their_row(name: str) -> None:
    """Nothing in a body reads or makes the whole value."""
    kind = KINDS[name]
    made = loops(vjp(parse(kind.text()), ["h", "v"], ["h0", "a", "x"]))
    types = [node.op_type for each in made for node in loop_view(each).body]
    assert not [each for each in types if each.startswith(tuple(kind.gone.split()))]


MEMORIES: tuple[Memory, ...] = ("keep", "checkpoint")
# They keep what they make of all rows, in every trip.
SQUARE = ("all is read by attention", "compressed by what is in it")


def test_what_picks_rows_is_kept_and_not_the_rows() -> None:
    model = vjp(parse(KINDS["compressed by what is in it"].text()), ["h", "v"], ["h0", "a", "x"])
    tapes = [tape_of(node) for node in model.graph if is_loop(node)]
    rows = [row for tape in tapes if tape is not None for row in tape.rows]
    assert [row.name for row in rows if "filled up" in row.why] == ["ok"]


@pytest.mark.parametrize("name", [name for name in KINDS if name not in SQUARE])
def test_the_tape_is_as_long_as_the_loop(name: str) -> None:
    kind = KINDS[name]
    model = vjp(parse(kind.text()), ["h", "v"], ["h0", "a", "x"])
    forward = [node for node in model.graph if is_loop(node)]
    stacks = [scan.stack for node in forward for scan in loop_view(node).scan_outputs]
    model.graph.outputs.extend(stacks)
    run = compile(model, threads=1)
    sizes = []
    for trips in (20, 40):
        inputs = kind.inputs(trips)
        shape = kind.run(*values(inputs, kind), trips).shape
        v = np.ones((shape[0] - 1, 2))
        seeds = {"h_grad": np.ones((1, 2)), "v_grad": v.T.copy() if kind.is_wide else v}
        got = run(inputs | seeds)
        sizes.append(sum(np.size(got[str(stack.name)]) for stack in stacks))
    assert sizes[1] == 2 * sizes[0]


@pytest.mark.parametrize("name", ["a stack", "a sequence is joined", "the first element is taken"])
def test_checkpoints_give_the_same(name: str) -> None:
    kind, trips = KINDS[name], 7
    inputs = kind.inputs(trips)
    rows = len(kind.run(*values(inputs, kind), trips)) - 1
    seeds = {"h_grad": np.ones((1, 2)), "v_grad": np.ones((rows, 2))}
    kept, again = (
        compile(vjp(parse(kind.text()), ["h", "v"], ["h0", "a", "x"], memory=memory))
        for memory in MEMORIES
    )
    want, got = kept(inputs | seeds), again(inputs | seeds)
    for wrt in ("h0_grad", "a_grad", "x_grad"):
        np.testing.assert_allclose(got[wrt], want[wrt], rtol=1e-12, atol=1e-14)
