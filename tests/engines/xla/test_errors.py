"""What the engine refuses, before and while it runs: it says what, where, why and what to do."""

import jax.numpy as jnp
import numpy as np
import pytest
from onnx import parser

from whileback.engines import Compiled, compile
from whileback.errors import EngineError

HEADER = '<ir_version: 10, opset_import: ["": 21, "my.own": 1]>\n'
VECTOR = np.ones(5, np.float32)
MATRIX = np.ones((2, 5), np.float32)


def compiled(text: str) -> Compiled:
    return compile(parser.parse_model(HEADER + text), engine="xla")


def refused(text: str) -> str:
    with pytest.raises(EngineError) as error:
        compiled(text)
    return str(error.value)


def test_all_that_is_not_known_is_listed():
    """Strings and operators, each once; strings that no operator reads, too."""
    assert refused("""m (string[N] s, float[N] x) => (string[N] t, float[N] y, float[N] z) {
        t = Identity(s)
        u = my.own.Foo(x)
        y = my.own.Bar(u)
        z = my.own.Foo(y)
    }""") == (
        "The engine 'xla' cannot run model 'm': strings, of which XLA has none, go into or come "
        "from ai.onnx::Identity; it has no lowering for my.own::Bar, my.own::Foo. Run it with "
        "engine='onnxruntime'."
    )
    assert refused("m (string[N] s, float[N] x) => (float[N] y) { y = Neg(x) }") == (
        "The engine 'xla' cannot run model 'm': strings, of which XLA has none, go into or come "
        "from input 's'. Run it with engine='onnxruntime'."
    )


NO_FIT = {
    "Slice axis": ("y = Slice(x, zero, two, a)", VECTOR, [3], "no axis 3 of an array of rank 1"),
    "Slice twice": ("y = Slice(x, a, a, a)", MATRIX, [0, 0], "each axis is cut once"),
    "Slice step": ("y = Slice(x, zero, two, zero, a)", VECTOR, [0], "in steps that are not 0"),
    "Split sum": ("y, z = Split(x, a)", VECTOR, [2, 2], r"sizes \[2, 2\] .* of 2 parts .* of 5"),
    "Split over": ("y, z = Split(x, a)", VECTOR, [2, 9], r"sizes \[2, 9\]"),
    "Split parts": ("y, z = Split(x, a)", VECTOR, [2, 2, 1], r"\[2, 2, 1\] .* of 2 parts"),
    "ReduceSum": ("y = ReduceSum(x, a)", VECTOR, [-2], "no axis -2 of an array of rank 1"),
    "Softmax": ("y = Softmax <axis = 2> (x)", VECTOR, [0], "no axis 2 of an array of rank 1"),
    "CumSum": ("y = CumSum(x, a)", VECTOR, [1], "no axis 1 of an array of rank 1"),
    "Tile axes": ("y = Tile(x, a)", VECTOR, [1, 2], r"\[1, 2\] does not tell how often"),
    "Tile less": ("y = Tile(x, a)", VECTOR, [-1], r"\[-1\] does not tell how often"),
    "Range": ("y = Range(zero, two, a)", VECTOR, [0], "no array can have the shape"),
    "Expand": ("y = Expand(x, a)", VECTOR[:1], [2**31, 2**31], "no array can have the shape"),
    "Fill": ("y = ConstantOfShape(a)", VECTOR, [-1], "negative dimensions"),
}  # fmt: skip


@pytest.mark.parametrize(("node", "x", "a", "reason"), NO_FIT.values(), ids=NO_FIT)
def test_operands_that_do_not_fit(node, x, a, reason):
    """ONNX Runtime refuses them as well; the node is named, and why."""
    f = compiled(f"""m (float[{"N" if x.ndim == 1 else "N,M"}] x, int64[K] a) => (y) {{
        zero = Constant <value_ints = [0]> ()
        two = Constant <value_ints = [2]> ()
        [here] {node}
    }}""")
    with pytest.raises(EngineError, match=f"cannot run .*here.*: .*{reason}"):
        f(x=x, a=a)


def test_too_little_memory():
    """The next call is compiled for what it needs itself."""
    f = compiled("big (int64[R] s, float x) => (float[A,B] y) { y = Expand(x, s) }")
    for _ in range(2):
        with pytest.raises(EngineError) as error:
            f(s=[2**29, 2**29], x=1.0)
        assert str(error.value).startswith(
            "XLA failed to run model 'big': RESOURCE_EXHAUSTED: Out of memory"
        )
        assert str(error.value).endswith(
            ". Give it smaller arrays; a gradient keeps less with memory='checkpoint'."
        )
        np.testing.assert_array_equal(f(s=[2, 3], x=1.0)["y"], np.ones((2, 3)))


@pytest.mark.parametrize(
    ("inputs", "node", "message"),
    [
        (
            "bool[N] d",
            "If(d) <then_branch = t () => (float a) { a = Neg(x) },"
            " else_branch = e () => (float b) { b = Identity(x) }>",
            "If '{}': its condition has shape [2], and is to have one element.",
        ),
        (
            "bool[N] d",
            "Loop(, d, x) <body = t (int64 i, bool c, float a) => (bool g, float b)"
            " { g = Not(c) b = Neg(a) }>",
            "Loop '{}': its condition has shape [2], and is to have one element.",
        ),
        (
            "int64[N] d",
            "Loop(d, , x) <body = t (int64 i, bool c, float a) => (bool g, float b)"
            " { g = Identity(c) b = Neg(a) }>",
            "Loop '{}': its number of trips has shape [2], and is to have one element.",
        ),
    ],
)
def test_what_decides_is_one_element(inputs: str, node: str, message: str) -> None:
    run = compiled(f"m ({inputs}, float x) => (float y) {{ y = {node} }}")
    decides = np.ones(2, np.int64 if "int64" in inputs else np.bool_)
    with pytest.raises(EngineError) as error:
        run(d=decides, x=np.float32(1))
    assert str(error.value) == f"The engine 'xla' cannot run {message.format(error.value.node)}"


def test_an_array_that_was_given_away() -> None:
    run = compiled("m (float[2] x) => (float[2] y) { y = Neg(x) }")
    x = jnp.ones(2, jnp.float32)
    run(x=x)
    x.delete()
    with pytest.raises(EngineError) as error:
        run(x=x)
    assert str(error.value) == (
        "XLA failed to run model 'm': Array has been deleted with shape=float32[2]. A function "
        "that donates it, or a step that carries it, has it now: pass a copy."
    )
