"""Small programs with loops and branches, for what JAX does to compiled models."""

from __future__ import annotations

import onnx_ir as ir
from onnx import parser

from whileback.engines import Compiled, compile
from whileback.formats import from_proto

HEADER = '<ir_version: 10, opset_import: ["": 21]>\n'


def model(text: str) -> ir.Model:
    return from_proto(parser.parse_model(HEADER + text), None)


def compiled(text: str) -> Compiled:
    return compile(model(text), engine="xla")


def recurrence(number: str = "float", rows: str = "B", size: str = "4") -> str:
    """`y ← tanh(y·w)`, `m` times, and `loss`, the sum of the squares of what comes out."""
    y = f"{number}[{rows},{size}]"
    return f"""recurrence ({y} x, {number}[{size},{size}] w, int64 m) => ({y} y, {number} loss) {{
        y = Loop (m, , x) <body = trip (int64 i, bool c, {y} a) => (bool d, {y} e) {{
            d = Identity(c)
            p = MatMul(a, w)
            e = Tanh(p)
        }}>
        squares = Mul(y, y)
        loss = ReduceSum<keepdims=0>(squares)
    }}"""


# Newton's iteration for the square root, until it stands still: how often, the data tells.
NEWTON = """newton (double a, double start) => (double root) {
    yes = Constant<value = bool {1}>()
    two = Constant<value = double {2.0}>()
    small = Constant<value = double {1e-12}>()
    root = Loop ( , yes, start) <body = trip (int64 i, bool c, double x) => (bool go, double z) {
        q = Div(a, x)
        s = Add(x, q)
        z = Div(s, two)
        move = Sub(z, x)
        far = Abs(move)
        go = Greater(far, small)
    }>
}"""

# Where x is positive 3x, else x·x; but a positive x must never get into the endless loop.
GUARDED = """guarded (double x) => (double y) {
    zero = Constant<value = double {0.0}>()
    yes = Constant<value = bool {1}>()
    positive = Greater(x, zero)
    y = If (positive) <
        then_branch = then () => (double u) {
            three = Constant<value = double {3.0}>()
            u = Mul(x, three)
        },
        else_branch = other () => (double v) {
            w = Loop ( , positive, x) <body = trip (int64 i, bool c, double p)
                                             => (bool d, double q) {
                d = Identity(c)
                q = Identity(p)
            }>
            v = Mul(w, x)
        }
    >
}"""

# Rows of a triangle: outer trip i makes i inner ones, and each of them may take either branch.
NESTED = """nested (double x, double r, int64 m) => (double y) {
    y = Loop (m, , x) <body = outer (int64 i, bool c, double a) => (bool d, double e) {
        d = Identity(c)
        e = Loop (i, , a) <body = inner (int64 j, bool f, double b) => (bool g, double h) {
            g = Identity(f)
            zero = Constant<value = double {0.0}>()
            q = Mul(b, r)
            s = Sin(q)
            large = Greater(s, zero)
            k = If (large) <
                then_branch = then () => (double u) {
                    t = Mul(s, b)
                    u = Sub(b, t)
                },
                else_branch = other () => (double v) {
                    w = Cos(b)
                    v = Add(w, b)
                }
            >
            h = Identity(k)
        }>
    }>
}"""
