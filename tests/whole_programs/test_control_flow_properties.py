"""Random models with nested loops and branches: their gradients agree with finite differences.

Each model is drawn as text. A block computes new vectors from those in sight, the outer ones
included, by smooth operators that keep values small, or by a `Loop`, a `Scan` or an `If` whose
bodies are blocks in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.judge import assert_gradient

UNARY = ("Sin", "Tanh", "Sigmoid", "Neg")
BINARY = ("Add", "Sub", "Mul")
HEAD = """(float[%(N)s] x, float[%(N)s] w, float[%(N)s,%(N)s] W, float[%(T)s,%(N)s] table,
    int64 n, int64 m, bool flag) => (float[%(N)s] y) {
"""


@dataclass
class Writer:
    """Draws the lines of a model; `vector` is how bodies declare the type of a vector."""

    draw: st.DrawFn
    vector: str
    counter: int = 0
    lines: list[str] = field(default_factory=list)

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def pick(self, names: list[str] | tuple[str, ...]) -> str:
        return self.draw(st.sampled_from(names))

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def block(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write one to three statements and return all vectors that are in sight after them."""
        vectors = list(vectors)
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = [self.operator] if nesting == 0 else [
                self.operator, self.loop, self.scan, self.branch
            ]  # fmt: skip
            vectors += self.draw(st.sampled_from(kinds))(depth, nesting, vectors, trips)
        return vectors

    def operator(
        self, depth: int, _nesting: int, vectors: list[str], _trips: list[str]
    ) -> list[str]:
        name = self.fresh()
        kind = self.draw(st.sampled_from(("unary", "binary", "same twice", "product")))
        if kind == "unary":
            self.line(depth, f"{name} = {self.pick(UNARY)}({self.pick(vectors)})")
        elif kind == "product":
            inner = self.fresh()
            self.line(depth, f"{inner} = MatMul(W, {self.pick(vectors)})")
            self.line(depth, f"{name} = Tanh({inner})")
        else:
            a = self.pick(vectors)
            b = a if kind == "same twice" else self.pick(vectors)
            self.line(depth, f"{name} = {self.pick(BINARY)}({a}, {b})")
        return [name]

    def results(self, depth: int, count: int, vectors: list[str]) -> list[str]:
        """Return so many results of a body: values of it, outer ones, or one value twice."""
        names = []
        for _ in range(count):
            name = self.fresh()
            self.line(depth, f"{name} = {self.pick(('Identity', 'Sin'))}({self.pick(vectors)})")
            names.append(name)
        return names

    def loop(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write a `Loop` with an integer, a boolean, one or two vectors, and a stack of rows."""
        carried = self.draw(st.integers(1, 2))
        starts = [self.pick(vectors) for _ in range(carried)]
        inner = [self.fresh() for _ in range(carried)]
        i, c, k, b = (self.fresh(p) for p in ("i", "c", "k", "b"))
        ends = [self.fresh() for _ in range(carried)]
        stack = self.fresh("stack")
        exits = self.draw(st.booleans())
        limit = self.pick(trips)
        first = self.pick(("", "flag"))
        self.line(
            depth,
            f"{self.fresh('k')}, {self.fresh('b')}, {', '.join(ends)}, {stack} = "
            f"Loop({limit}, {first}, zero, flag, {', '.join(starts)}) <body = {self.fresh('g')}",
        )
        k2, b2, go = self.fresh("k"), self.fresh("b"), self.fresh("go")
        position = len(self.lines)
        self.line(depth + 1, f"{k2} = Add({k}, one)")
        self.line(depth + 1, f"{b2} = Xor({b}, {c})")
        seen = self.block(depth + 1, nesting - 1, [*vectors, *inner], [*trips, i])
        row, *after = self.results(depth + 1, carried + 1, seen)
        row = self.pick([row, after[0]])
        self.line(depth + 1, f"{go} = {f'Less({k2}, two)' if exits else f'Identity({c})'}")
        self.line(depth, "}>")
        inputs = ", ".join(f"{self.vector} {v}" for v in inner)
        outputs = ", ".join(f"{self.vector} {v}" for v in (*after, row))
        self.lines.insert(
            position,
            "  " * depth + f"    (int64 {i}, bool {c}, int64 {k}, bool {b}, {inputs})"
            f" => (bool {go}, int64 {k2}, bool {b2}, {outputs}) {{",
        )
        return ends + self.summed(depth, stack)

    def summed(self, depth: int, stack: str) -> list[str]:
        """Reduce a stack, perhaps an empty one of lost rank, to a vector; or leave it unread."""
        if self.draw(st.booleans()):
            return []
        rows, total, name = self.fresh("r"), self.fresh(), self.fresh()
        self.line(depth, f"{rows} = Reshape({stack}, rows)")
        self.line(depth, f"{total} = ReduceSum<keepdims = 0>({rows}, axis)")
        self.line(depth, f"{name} = Tanh({total})")
        return [name]

    def scan(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write a `Scan` over the table, in any of the directions."""
        start, end, inner = self.pick(vectors), self.fresh(), self.fresh()
        x, stack = self.fresh("row"), self.fresh("stack")
        reads, writes = self.draw(st.integers(0, 1)), self.draw(st.integers(0, 1))
        self.line(
            depth,
            f"{end}, {stack} = Scan({start}, table) <num_scan_inputs = 1, scan_input_directions = "
            f"[{reads}], scan_output_directions = [{writes}], body = {self.fresh('g')}",
        )
        position = len(self.lines)
        seen = self.block(depth + 1, nesting - 1, [*vectors, inner, x], trips)
        after, row = self.results(depth + 1, 2, seen)
        self.line(depth, "}>")
        self.lines.insert(
            position,
            "  " * depth + f"    ({self.vector} {inner}, {self.vector} {x})"
            f" => ({self.vector} {after}, {self.vector} {row}) {{",
        )
        return [end, *self.summed(depth, stack)]

    def branch(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write an `If` on the flag, or on whether a number is zero; either branch comes first."""
        condition = "flag"
        if self.draw(st.booleans()):
            condition = self.fresh("c")
            self.line(depth, f"{condition} = Equal({self.pick(trips)}, zero)")
        results = [self.fresh(), self.fresh()]
        self.line(depth, f"{', '.join(results)} = If({condition}) <")
        keys = self.draw(st.permutations(("then_branch", "else_branch")))
        for key in keys:
            position = len(self.lines)
            seen = self.block(depth + 1, nesting - 1, vectors, trips)
            inner = self.results(depth + 1, 2, seen)
            self.line(depth, "}," if key == keys[0] else "}>")
            outputs = ", ".join(f"{self.vector} {v}" for v in inner)
            self.lines.insert(
                position, "  " * depth + f"  {key} = {self.fresh('g')} () => ({outputs}) {{"
            )
        return results


@st.composite
def models(draw: st.DrawFn) -> str:
    sizes = draw(st.sampled_from(({"N": "2", "T": "3"}, {"N": "N", "T": "T"})))
    body = draw(st.sampled_from(("float[2]", "float[N]", "float[M]")))
    writer = Writer(draw, body)
    for name, value in (("zero", "0"), ("one", "1"), ("two", "2")):
        writer.line(1, f"{name} = Constant<value = int64 {{{value}}}>()")
    writer.line(1, "any = Constant<value = int64[1] {-1}>()")
    writer.line(1, "size = Shape(x)")
    writer.line(1, "rows = Concat<axis = 0>(any, size)")
    writer.line(1, "axis = Constant<value = int64[1] {0}>()")
    start = ["x", "w"]
    nested = draw(st.sampled_from((writer.loop, writer.scan, writer.branch)))
    seen = start + nested(1, 3, start, ["n", "m"])
    last = writer.results(1, 1, seen[len(start) :])[0]
    seen = writer.block(1, 0, [*seen, last], [])
    writer.line(1, f"s1 = Sum({', '.join(dict.fromkeys((last, *seen[2:])))})")
    writer.line(1, "y = Sin(s1)")
    return HEAD % sizes + "\n".join(writer.lines) + "\n}"


@pytest.mark.filterwarnings("ignore:No value in of= depends on")
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(models(), st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 99))
def test_random_models(model: str, n: int, m: int, flag: bool, seed: int) -> None:
    inputs = {"n": n, "m": m, "flag": np.array(flag), "x": [0.5, -1.25]}
    assert_gradient(model, ["y"], ["x", "w", "W", "table"], inputs, seed=seed)
