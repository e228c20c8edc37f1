"""No loop copies a stack in its trips: not those that write it, and not those that read it.

What a trip costs must not depend on how many trips there are. A program that copies a stack in
every trip gives the right numbers, and takes seconds instead of milliseconds.
"""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines.xla.model import Model
from whileback.gradient import vjp

# No other size is like it.
TRIPS = 977

PLAIN = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
    d = Identity(c) p = MatMul(v, w) u = Tanh(p)
  }>
}"""
WHILE = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  one = Constant<value_int = 1>() start = Cast<to = 9>(one) last = Sub(M, one)
  y = Loop( , start, x) <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
    d = Less(i, last) p = MatMul(v, w) u = Tanh(p)
  }>
}"""
STACKS = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  z, rows, more = Loop(M, , x)
    <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u, float[1,8] s, float[8] t) {
    d = Identity(c) p = MatMul(v, w) u = Tanh(p) s = Sin(u) q = Mul(p, s)
    t = ReduceSum<keepdims = 0>(q, zero)
  }>
  zero = Constant<value_ints = [0]>()
  a = ReduceSum<keepdims = 0>(rows, zero) b1 = ReduceSum(more, zero) c1 = Add(a, b1) y = Add(c1, z)
}"""
BRANCH = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  two = Constant<value_int = 2>()
  y = Loop(M, , x) <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
    d = Identity(c) odd = Mod(i, two) k = Cast<to = 9>(odd)
    u = If(k) <then_branch = t () => (float[1,8] u1) { p = MatMul(v, w) u1 = Tanh(p) },
               else_branch = e () => (float[1,8] u2) { q = Mul(v, v) u2 = Sin(q) }>
  }>
}"""
NESTED = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  K = Constant<value_int = 5>()
  y = Loop(M, , x) <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
    d = Identity(c)
    s = Loop(K, , v) <body = e (int64 j, bool f, float[1,8] q) => (bool g, float[1,8] r) {
      g = Identity(f) m = MatMul(q, w) r = Tanh(m)
    }>
    p = MatMul(s, w) u = Sigmoid(p)
  }>
}"""
INNER = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  K = Constant<value_int = 2>()
  y = Loop(K, , x) <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
    d = Identity(c) m1 = Sub(M, i)
    s = Loop(m1, , v) <body = e (int64 j, bool f, float[1,8] q) => (bool g, float[1,8] r) {
      g = Identity(f) m = MatMul(q, w) r = Tanh(m)
    }>
    p = MatMul(s, w) u = Sigmoid(p)
  }>
}"""
GUARDED = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
  K = Constant<value_int = 3>() two = Constant<value_int = 2>()
  y = Loop(K, , x) <body = b (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
    d = Identity(c) odd = Mod(i, two) k = Cast<to = 9>(odd)
    u = If(k) <then_branch = t () => (float[1,8] u1) {
        u1 = Loop(M, , v) <body = e (int64 j, bool f, float[1,8] q) => (bool g, float[1,8] r) {
          g = Identity(f) m = MatMul(q, w) r = Tanh(m)
        }> },
      else_branch = e () => (float[1,8] u2) { q = Mul(v, v) u2 = Sin(q) }>
  }>
}"""
MODELS = {
    "plain": PLAIN, "while": WHILE, "stacks": STACKS, "branch": BRANCH, "nested": NESTED,
    "inner": INNER, "guarded": GUARDED,
}  # fmt: skip


def program(model: ir.Model, trips: int) -> str:
    """Return the optimized program for so many trips."""
    compiled = Model.of("m", model)
    rng = np.random.default_rng(0)
    shapes = {"x": (1, 8), "w": (8, 8), "y_grad": (1, 8)}
    feeds = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    feeds["M"] = np.array(trips)
    inputs = {str(v.name): feeds[str(v.name)] for v in compiled.graph.inputs}
    compiled.run(inputs)
    return compiled.text(inputs)


def copies(text: str, rows: range) -> list[str]:
    """Return what makes a whole stack in the trips of a loop, but for filling it with zeros.

    Around an inner loop, which may be a call, what is computed of all its rows at once is no copy.
    """
    graphs = {
        match[1]: match[0]
        for match in re.finditer(r"^%?([\w.-]+) \(.*?^}", text, re.MULTILINE | re.DOTALL)
    }
    found = []
    for name in sorted(inside_loops(text, graphs)):
        making = COPYING if re.search(r" (while|call)\(", graphs[name]) else MAKING
        for line in graphs[name].splitlines():
            made = re.match(r"\s*(?:ROOT )?%?[\w.-]+ = \w+\[(\d+)[,\]].*? ([\w-]+)\(", line)
            if made and int(made[1]) in rows and made[2] in making and not _updates(line, graphs):
                found.append(line.strip())
    return found


COPYING = ("copy", "copy-start")
MAKING = (*COPYING, "fusion", "select", "concatenate", "dynamic-slice", "custom-call")


def inside_loops(text: str, graphs: dict[str, str]) -> set[str]:
    """Return the bodies of loops, and the branches in them."""
    waiting = set(re.findall(r"body=%?([\w.-]+)", text))
    inside: set[str] = set()
    while waiting:
        name = waiting.pop()
        inside.add(name)
        for listed in re.findall(
            r"(?:branch_computations={([^}]*)}|(?:true|false)_computation=(%?[\w.-]+))",
            graphs[name],
        ):
            branches = {each.strip(" %") for each in ",".join(listed).split(",")} - {""}
            waiting |= branches - inside
    return inside


def _updates(line: str, graphs: dict[str, str]) -> bool:
    """Tell whether a fusion writes a row in place, or fills a new stack."""
    called = re.search(r"calls=%?([\w.-]+)", line)
    root = called and re.search(r"ROOT .*? ([\w-]+)\(", graphs[called[1]])
    return root is not None and root[1] in ("dynamic-update-slice", "broadcast")


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_gradients_copy_no_stack_in_a_loop(text: str) -> None:
    gradient = vjp(parse(text), "y", ["x", "w"])
    assert copies(program(gradient, TRIPS), range(900, 2000)) == []


def test_what_copies_is_found() -> None:
    """A stack of which a whole is made in every trip: the judge must see that."""
    text = """(int64 M, float[1,8] x, float[8,8] w) => (float[1,8] y) {
      start = Constant<value_float = 0.0>() end = Constant<value_float = 977.0>()
      one = Constant<value_float = 1.0>() axis = Constant<value_ints = [1]>()
      zero = Constant<value_ints = [0]>()
      numbers = Range(start, end, one) column = Unsqueeze(numbers, axis)
      y = Loop(M, , x) <body = b2 (int64 i, bool c, float[1,8] v) => (bool d, float[1,8] u) {
        d = Identity(c) q = Mul(column, v) s = Sin(q) m = MatMul(s, w) u = ReduceMax(m, zero)
      }>
    }"""
    assert copies(program(parse(text), 5), range(900, 2000))
