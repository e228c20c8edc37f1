"""What is drawn at random in a step: by which numbers, how often, and that it can be repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.gradient.memory.strategies import Memory
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.randomness import may_draw
from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes
from whileback.training import interface, output, sgd, step
from whileback.training.philox import philox, round_keys
from whileback.training.randomness import draw_by_counting, hides_draws

RATIO = "ratio = Constant<value_float = 0.3>() on = Constant<value = bool {1}>()"
NODES = f"""(float[1] x) => (float y) <float[4000] w = {{{",".join(["1"] * 4000)}}}> {{
    {RATIO}
    a = Dropout(w, ratio, on)
    b = Dropout(w, ratio, on)
    t = Mul(b, two)
    s = Sum(a, t)
    y = ReduceSum<keepdims = 0>(s)
}}""".replace("{\n", "{\n two = Constant<value_float = 2.0>()\n", 1)
# Trip t of the outer loop and s of the inner one count 2^(4·t + s).
TRIPS = f"""(float[1] x) => (float y) <float[500] w = {{{",".join(["1"] * 500)}}}> {{
    {RATIO}
    n = Constant<value_int = 3>() m = Constant<value_int = 4>() zero = Constant<value_float = 0.0>()
    r = Constant<value_floats = [1.0, 2.0, 4.0, 8.0]>()
    outer = Constant<value_floats = [1.0, 16.0, 256.0]>()
    y = Loop(n, "", zero) <body = trip (int64 i, bool c, float u) => (bool d, float v) {{
        d = Identity(c)
        o = Gather(outer, i)
        INNER
        k = Mul(inner, o)
        v = Add(u, k)
    }}>
}}"""
BODY = "e = Dropout(w, ratio, on) f = ReduceSum<keepdims = 0>(e) g = Mul(f, q) h = Add(p, g)"
INNER = {
    "Loop": f"""inner = Loop(m, "", zero) <body = b (int64 j, bool c2, float p)
        => (bool d2, float h) {{ d2 = Identity(c2) q = Gather(r, j) {BODY} }}>""",
    "Scan": f"""inner = Scan(zero, r) <num_scan_inputs = 1, body = b (float p, float q)
        => (float h) {{ {BODY} }}>""",
    "If": f"""inner = Scan(zero, r) <num_scan_inputs = 1, body = b (float p, float q)
        => (float h) {{ h = If(c) <then_branch = t () => (float k1) {{ {BODY} k1 = Identity(h1) }},
                   else_branch = l () => (float k2) {{ k2 = Identity(p) }}> }}>""".replace(
        "h = Add(p, g) k1", "h1 = Add(p, g) k1"
    ),
}


def slope(
    model: ir.Model, engine: str = "onnxruntime", memory: Memory = None, **feeds: Any
) -> np.ndarray:
    """Return the gradient of the output with respect to w."""
    f = compile(step(model, output(), sgd(), memory=memory), engine=engine)
    out = f({"x": [0.0], "learning_rate": 1.0} | feeds)
    return np.asarray(1.0 - out["w_next"])


def assert_rate(mask: np.ndarray, rate: float) -> None:
    """Whether as many elements are true as a rate says, to four standard deviations."""
    deviation = np.sqrt(rate * (1 - rate) / mask.size)
    assert abs(mask.mean() - rate) <= 4 * deviation


def assert_independent(masks: list[np.ndarray], rate: float) -> None:
    for index, first in enumerate(masks):
        assert_rate(first, rate)
        for second in masks[:index]:
            assert_rate(first & second, rate**2)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter: list[int], key: list[int], expected: str) -> None:
    """The known answers of philox4x32 with 10 rounds, of Random123, file kat_vectors."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 21}, name="g")
    op = Builder(graph, Names([]), Shapes(graph.opset_imports))
    words = [ir.val(name, ir.DataType.UINT64, [2, 1, 1]) for name in ("even", "odd", "key")]
    graph.inputs.extend(words)
    graph.outputs.extend(philox(op, *words[:2], round_keys(op, words[2])))
    given = {"even": counter[::2], "odd": counter[1::2], "key": key}
    feeds = {name: np.array(data, np.uint64).reshape(2, 1, 1) for name, data in given.items()}
    even, odd = compile(ir.Model(graph, ir_version=10))(feeds).values()
    found = np.stack([even.ravel(), odd.ravel()], axis=1).ravel()
    assert " ".join(f"{number:08x}" for number in found) == expected


def test_nodes_and_calls_drop_apart() -> None:
    slopes = [slope(parse(NODES), calls=calls) for calls in (0, 1, 2**32 - 1)]
    codes = [(each * 0.7).round().astype(int) for each in slopes]
    masks = [(code & bit).astype(bool) for code in codes for bit in (1, 2)]
    assert_independent(masks, 0.7)
    # Neighbours in one mask, also those that come from the same block of numbers.
    for distance in (1, 2, 500, 1000):
        assert_rate(masks[0][distance:] & masks[0][:-distance], 0.49)


@pytest.mark.parametrize("inner", INNER)
def test_trips_drop_apart(inner: str) -> None:
    code = (slope(parse(TRIPS.replace("INNER", INNER[inner]))) * 0.7).round().astype(int)
    assert_independent([(code & (1 << bit)).astype(bool) for bit in range(12)], 0.7)


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
def test_loops_that_run_again_draw_the_same(memory: Memory) -> None:
    model = parse(TRIPS.replace("INNER", INNER["Scan"]))
    np.testing.assert_allclose(slope(model, memory=memory), slope(model), rtol=1e-6)


# What a loop carries, whose size only the run tells, as that by how much is dropped may.
CARRIED = """(float[N,3] x, int64 n, bool go, float r) => (float[N,3] y) <float[3] w = {1, 2, 3}> {
    y = Loop(n, START, x) <body = b (int64 i, bool c, float[N,3] u) => (bool d, float[N,3] v) {
        d = Identity(AGAIN) a = Mul(u, w) s = Sin(a) v = Dropout(s RATIO) }> }"""
# By what is changed, and by what is to be kept of the loop: whether each trip draws for itself.
DRAWS: list[tuple[dict[str, str], Memory, bool]] = [
    ({}, None, False),
    ({}, "recompute", True),
    ({"START": "go", "AGAIN": "go"}, None, True),
    ({"RATIO": ", r"}, None, True),
]


def carried(START: str = '""', AGAIN: str = "c", RATIO: str = "") -> ir.Model:
    names = {"START": START, "AGAIN": AGAIN, "RATIO": RATIO}
    text = CARRIED
    for name, value in names.items():
        text = text.replace(name, value)
    return parse(text)


def draws_in_trips(one: ir.Model) -> bool:
    loops = (node for node in one.graph if node.op_type == "Loop")
    bodies = [node.attributes["body"].as_graph() for node in loops]
    return any(node.op_type == "BitwiseXor" for body in bodies for node in walk(body))


@pytest.mark.parametrize(("trips", "rows"), [(0, 2), (1, 0), (1, 3), (5, 4)])
def test_masks_of_all_trips_at_once(trips: int, rows: int) -> None:
    """They are those that trips draw one by one, which they do where that has to be."""
    x = np.random.default_rng(0).normal(size=(rows, 3)).astype("f")
    feeds = {"x": x, "n": trips, "label": x, "learning_rate": 0.1, "go": True, "r": 0.5}
    outs = []
    for changes, memory, inside in DRAWS:
        one = step(carried(**changes), "mse", "sgd", dropout=True, memory=memory)
        assert draws_in_trips(one) == inside
        outs.append(compile(one)(feeds)["w_next"])
    for out in outs[1:]:
        np.testing.assert_allclose(out, outs[0], rtol=1e-5)


def test_engines_agree() -> None:
    pytest.importorskip("jax")
    one = step(carried(), "mse", "sgd", dropout=0.3)
    x = np.random.default_rng(0).normal(size=(20, 3)).astype("f")
    feeds = {"x": x, "n": 3, "label": x, "learning_rate": 0.1, "go": True, "r": 0.5}
    feeds |= {"seed": -5, "calls": 7}
    found, expected = (
        compile(one, engine=each)(feeds)["w_next"] for each in ("xla", "onnxruntime")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_seed_repeats_a_run() -> None:
    one = ir.to_proto(step(parse(NODES), output(), sgd())).SerializeToString()

    def run(seed: int) -> np.ndarray:
        session = onnxruntime.InferenceSession(one, providers=["CPUExecutionProvider"])
        kept: dict[str, Any] = {"seed": np.array(seed)}
        for _ in range(3):
            feeds = kept | {"x": np.zeros(1, "f"), "learning_rate": np.array(0.1, "f")}
            _, w, calls = session.run(["loss", "w_next", "calls_next"], feeds)
            kept |= {"w": w, "calls": calls}
        assert kept["calls"] == 3
        return np.asarray(kept["w"])

    assert np.array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))
    assert not np.array_equal(run(1), run(1 + 2**32))


def test_slopes_through_masks() -> None:
    """What a dropped element reads has no slope, the others have that of finite differences."""
    text = """(double[3,4] x) => (double[3,4] y)
    <double[4,4] w = {1,2,0,1, 0,1,1,2, 2,0,1,1, 1,1,2,0}> {
        zero = Constant<value = int64 {0}>() n = Constant<value = int64 {3}>()
        y = Loop(n, "", x) <body = b (int64 i, bool c, double[3,4] u) => (bool d, double[3,4] v) {
            d = Identity(c) a = MatMul(u, w) s = Sin(a) v = Dropout(s) }> }"""
    f = compile(step(parse(text), "mse", "sgd", "w", dropout=0.25))
    w = np.array([[1, 2, 0, 1], [0, 1, 1, 2], [2, 0, 1, 1], [1, 1, 2, 0]], float)
    feeds = {"x": np.random.default_rng(0).normal(size=(3, 4)), "label": np.zeros((3, 4))}
    found = w - f(feeds, learning_rate=1.0)["w_next"]
    assert (found != 0).any()
    for place in np.ndindex(4, 4):
        change = np.zeros((4, 4))
        change[place] = 1e-5
        ends = [f(feeds, w=w + c, learning_rate=0.0)["loss"] for c in (change, -change)]
        np.testing.assert_allclose(found[place], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-8)


# Each weight goes through a node of its own.
THREE = f"""(float[1] x) => (float y)
    <float[2000] a = {{ONES}}, float[2000] b = {{ONES}}, float[2000] c = {{ONES}}> {{
    {RATIO} r = Constant<value_float = 0.2>()
    [one] da = Dropout(a)
    [two] db = Dropout(b, ratio, on)
    [three] dc = Dropout(c, r)
    s = Sum(da, db, dc)
    y = ReduceSum<keepdims = 0>(s)
}}""".replace("ONES", ",".join(["1"] * 2000))


@pytest.mark.parametrize(
    ("dropout", "rates"),
    [
        (None, [0, 0.3, 0]),
        (True, [0.5, 0.3, 0.2]),
        (False, [0, 0, 0]),
        (0.1, [0.1, 0.1, 0.1]),
        ({"one": True}, [0.5, 0.3, 0]),
        ({"*": 0.4, "t*": False, "three": 0.6}, [0.4, 0, 0.6]),
    ],
)
def test_which_nodes_drop(dropout: Any, rates: list[float]) -> None:
    one = step(parse(THREE), output(), sgd(), dropout=dropout)
    assert interface(one).seed == ("seed" if any(rates) else None)
    assert interface(one).state == (["calls"] if any(rates) else [])
    out = compile(one)(x=[0.0], learning_rate=1.0)
    for name, rate in zip("abc", rates, strict=True):
        found = 1 - out[f"{name}_next"]
        assert_rate(found == 0, rate)
        np.testing.assert_allclose(found[found != 0], 1 / (1 - rate), rtol=1e-6)


@pytest.mark.parametrize(
    ("dropout", "message"),
    [
        (
            {"tow": 0.5},
            "dropout= has 'tow', which fits none of the names of Dropout nodes; did you mean "
            "'two'?",
        ),
        (
            1.0,
            "dropout= has the ratio 1.0, which is not from 0 to below 1. Give one that is, True "
            "for the node's own, or False.",
        ),
        (
            {"one": "0.5"},
            "dropout= has the ratio '0.5', which is not from 0 to below 1. Give one that is, True "
            "for the node's own, or False.",
        ),
        (
            {"one": -0.5},
            "dropout= has the ratio -0.5, which is not from 0 to below 1. Give one that is, True "
            "for the node's own, or False.",
        ),
    ],
)
def test_wrong_dropout(dropout: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        step(parse(THREE), output(), sgd(), dropout=dropout)
    assert str(caught.value) == message


def test_no_dropout() -> None:
    model = parse("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    assert interface(step(model, "mse", "sgd", dropout=False)).seed is None
    with pytest.raises(ArgumentError) as caught:
        step(model, "mse", "sgd", dropout=0.5)
    assert str(caught.value) == (
        "dropout=0.5, but model 'model' has no Dropout node. Export it for training, so that they "
        "stay in, or leave dropout= out."
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_run_tells_whether_to_drop(training: bool) -> None:
    """The masks that a node returns are its own, also where nothing is dropped."""
    result = drawn(
        "(float[N] x, bool t, float r) => (float[N] y, bool[N] m) { y, m = Dropout(x, r, t) }",
        x=np.full(999, 3, np.float32),
        t=training,
        r=0.5,
    )
    assert_rate(result["m"], 0.5 if training else 1)
    np.testing.assert_array_equal(result["y"], np.where(result["m"], 6.0 if training else 3.0, 0))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (7, 3), (8,), (2, 2, 5)])
def test_masks_of_any_shape(shape: tuple[int, ...]) -> None:
    text = "(float[{dims}] x, bool t) => (float[{dims}] y) {{ y = Dropout(x, , t) }}"
    for dims in (list(shape), [f"N{axis}" for axis in range(len(shape))]):
        model = text.format(dims=",".join(map(str, dims))).replace("[]", "")
        assert drawn(model, x=np.ones(shape, np.float32), t=True)["y"].shape == shape


def test_everything_dropped() -> None:
    """A ratio of 1, which only a run can give: zeros, and no NaN on the way back."""
    text = """(float[4] x, float r) => (float[4] y) <float[4] w = {1,1,1,1}> {
        a = Mul(x, w) y = Dropout(a, r) }"""
    f = compile(step(parse(text), "mse", "sgd", dropout=True))
    out = f(x=[1.0] * 4, r=1.0, label=[1.0] * 4, learning_rate=1.0)
    assert out["loss"] == 1
    assert out["w_next"].tolist() == [1, 1, 1, 1]


def drawn(text: str, **feeds: Any) -> dict[str, np.ndarray]:
    """Return what a model gives whose nodes draw by counting."""
    model = normalize(parse(text), needs_expansion=hides_draws)
    graph = model.graph
    shapes = Shapes(graph.opset_imports)
    shapes.reserve(graph)
    assert draw_by_counting(Builder(graph, Names.of(graph), shapes)) is not None
    assert not any(may_draw(node) for node in walk(graph))
    return compile(model)(feeds)


def assert_moments(numbers: np.ndarray, mean: float, deviation: float) -> None:
    error = deviation / np.sqrt(numbers.size)
    assert abs(numbers.mean() - mean) < 4 * error
    assert abs(numbers.std() / deviation - 1) < 4 / np.sqrt(numbers.size)
    # What halves of the blocks say does not go together.
    half = numbers.size // 2
    assert abs(np.corrcoef(numbers[:half], numbers[half : 2 * half])[0, 1]) < 4 / np.sqrt(half)


@pytest.mark.parametrize(
    ("text", "mean", "deviation"),
    [
        ("RandomUniform<shape = [20001]>()", 0.5, 12**-0.5),
        ("RandomUniform<shape = [20001], dtype = 11, low = -1.0>()", 0, 3**-0.5),
        ("RandomUniformLike<low = 1.0, high = 3.0>(x)", 2, 3**-0.5),
        ("RandomNormal<shape = [20001], mean = 2.0>()", 2, 1),
        ("RandomNormalLike<scale = 0.5>(x)", 0, 0.5),
        ("RandomNormalLike<dtype = 11>(x)", 0, 1),
        ("RandomNormalLike<dtype = 10>(x)", 0, 1),
        ("Bernoulli(x)", 0.25, 0.1875**0.5),
        ("Bernoulli<dtype = 7>(x)", 0.25, 0.1875**0.5),
    ],
)
def test_distributions(text: str, mean: float, deviation: float) -> None:
    dtype = {"11": "double", "10": "float16", "7": "int64"}
    found = next((dtype[each] for each in dtype if f"dtype = {each}" in text), "float")
    model = f"(float[N] x) => ({found}[20001] y) {{ y = {text} }}"
    numbers = drawn(model, x=np.full(20001, 0.25, np.float32))["y"].astype(float)
    assert numbers.shape == (20001,)
    assert_moments(numbers, mean, deviation)


def test_classes() -> None:
    """Numbers of classes, as likely as the logarithms say."""
    logits = np.log(np.array([[1, 2, 5], [6, 2, 0]]) / 8 + 1e-30)
    model = "(float[B,3] x) => (int32[B,5000] y) { y = Multinomial<sample_size = 5000>(x) }"
    classes = drawn(model, x=logits.astype(np.float32))["y"]
    for row, weights in zip(classes, ([1, 2, 5], [6, 2, 0]), strict=True):
        for number, weight in enumerate(weights):
            assert_rate(row == number, weight / 8)


def test_dropout_with_a_bias() -> None:
    """What ONNX Runtime's optimizer makes of `Add` and `Dropout`."""
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        model (float[600] x, float[600] b, float r, bool t) => (float[600] y) {
        y = com.microsoft.BiasDropout(x, b, x, r, t) }"""
    ones = np.ones(600, np.float32)
    y = drawn(text, x=ones, b=ones, r=0.25, t=True)["y"]
    assert_rate(y > 1, 0.75)
    np.testing.assert_allclose(y[y > 1], 1 + 2 / 0.75)


def test_a_map_over_a_sequence_draws() -> None:
    text = """(float[500] x, bool t) => (float[M,500] y) {
        s = SequenceConstruct(x, x)
        d = SequenceMap(s) <body = b (float[500] e) => (float[500] f) { f = Dropout(e, , t) }>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(d)
    }"""
    masks = drawn(text, x=np.ones(500, np.float32), t=True)["y"] != 0
    assert_independent(list(masks), 0.5)
