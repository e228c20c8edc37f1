"""Random models of one operator: any shapes, declared and given in any way, judged from all sides.

The tests take a few examples, always the same ones. To look for more:

    WHILEBACK_EXAMPLES=300 .venv/bin/pytest tests/properties --hypothesis-seed=1
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, Phase, event, given, note, reject, settings
from hypothesis import strategies as st
from tests.gradient.rules.quantization import straight
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import EngineError
from whileback.gradient import names, vjp
from whileback.graph.containers import is_sequence
from whileback.graph.scopes import is_loop
from whileback.graph.shapes import describe

EXAMPLES = int(os.environ.get("WHILEBACK_EXAMPLES", 0))

_TYPES = {
    "float32": "float", "float64": "double", "int64": "int64", "int32": "int32", "bool": "bool",
}  # fmt: skip

# Sizes in numbers, or in symbols, of which equal sizes may share one; or not even a rank.
WAYS = ("numbers", "symbols", "unknown")

Draw = Callable[[st.SearchStrategy[Any]], Any]
Shape = tuple[int, ...]
Test = Callable[[Draw], None]


def examples(count: int) -> Callable[[Test], Callable[..., None]]:
    """Run a test for so many examples; it gets what draws from a strategy."""

    def decorate(test: Test) -> Callable[..., None]:
        @pytest.mark.filterwarnings("ignore:No value in of= depends on")
        @settings(
            max_examples=EXAMPLES or count,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def run(data: st.DataObject) -> None:
            test(data.draw)

        return run

    return decorate


def shape(
    draw: Draw, least_rank: int = 0, most_rank: int = 5, *, smallest: int = 0, most: int = 64
) -> Shape:
    """Draw a shape of sizes up to 4 that has no more than so many elements."""
    dims: list[int] = []
    for _ in range(draw(st.integers(least_rank, most_rank))):
        room = most // int(np.prod([dim or 1 for dim in dims]))
        dims.append(draw(st.integers(smallest, max(smallest, min(4, room)))))
    return tuple(dims)


def part_of(draw: Draw, whole: Shape) -> Shape:
    """Draw a shape that can be broadcast to another one: some sizes are 1, some are left out."""
    dims = [1 if draw(st.booleans()) else dim for dim in whole]
    return tuple(dims[draw(st.integers(0, len(dims))) :])


def axis(draw: Draw, rank: int) -> int:
    """Draw an axis, counted from either end."""
    return int(draw(st.integers(-rank, rank - 1)))


def axes(draw: Draw, rank: int, least: int = 0) -> list[int]:
    """Draw some axes in any order, each counted from either end."""
    chosen = draw(st.permutations(range(rank)))[: draw(st.integers(min(least, rank), rank))]
    return [each - rank if draw(st.booleans()) else each for each in chosen]


def numbers(draw: Draw, dims: Shape, which: int = 0, *, positive: bool = False) -> np.ndarray:
    """Draw numbers between 1/4 and 2, as a rule of both signs, none close to another or to 0.

    Those of operand number `which` are not close to those of other operands either.
    """
    count = int(np.prod(dims))
    sizes = np.linspace(0.25, 2.0, max(count, 64)) + which / 256
    if not positive:
        sizes = sizes * np.where(np.arange(len(sizes)) % 2, -1, 1)
    order = np.random.default_rng(draw(st.integers(0, 9))).permutation(len(sizes))
    return sizes[order][:count].reshape(dims).astype(np.float32)


def factors(draw: Draw, dims: Shape) -> np.ndarray:
    """Draw powers of two and zeros, whose products and quotients are exact."""
    count = int(np.prod(dims))
    drawn = st.lists(st.sampled_from((1, 0.5, -1, 2, -2, 0)), min_size=count, max_size=count)
    return np.array(draw(drawn), np.float32).reshape(dims)


def whole(draw: Draw, dims: Shape, least: int, most: int, dtype: str = "int64") -> np.ndarray:
    """Draw whole numbers."""
    count = int(np.prod(dims))
    drawn = draw(st.lists(st.integers(least, most), min_size=count, max_size=count))
    return np.array(drawn, dtype).reshape(dims)


def flags(draw: Draw, dims: Shape) -> np.ndarray:
    """Draw truth values."""
    return whole(draw, dims, 0, 1, "bool")


def ints(values: Sequence[int]) -> np.ndarray:
    """Return a list as an operator takes it."""
    return np.array(values, np.int64)


def judge(
    draw: Draw,
    call: str,
    *,
    outputs: Sequence[str] = ("y",),
    of: Sequence[str] = ("y",),
    opset: int = 21,
    kinks: bool = False,
    declared: Sequence[str] = WAYS,
    fixed: Sequence[str] = (),
    letters: Mapping[str, Sequence[str]] = MappingProxyType({}),
    quantized: bool = False,
    second_order: bool = True,
    **inputs: np.ndarray,
) -> None:
    """Judge an operator whose inputs are given as `_Model` says.

    Args:
        draw: draws from a strategy.
        call: the operator, as in `Mul(a, b)`.
        outputs: the names of its outputs.
        of: those to differentiate.
        opset: that of the model.
        kinks: whether some of the elements may be where the model is not smooth.
        declared: how the shapes of inputs may be declared, some of `WAYS`.
        fixed: the inputs that nothing is differentiated by.
        letters: one for each axis of some inputs: sizes with equal letters are declared in the same
            way, and those that have "-" in numbers.
        quantized: whether to judge what goes straight through, as if nothing was rounded.
        second_order: whether to judge second derivatives of some of the examples.
        inputs: the values of the operator's inputs.
    """
    model = _Model(draw, opset, declared, letters)
    model.give(inputs, fixed)
    nodes = f"{', '.join(outputs)} = {call} "
    forward = model.run(nodes, of)
    results = [_result(draw, name, value) for name, value in forward.items()]
    nodes += "".join(after for _, _, after in results)
    text = model.text(nodes, [declared for _, declared, _ in results])
    note(f"{text}\nwith respect to {model.wrt} for {model.feeds}")
    differentiated = [name for name, _, _ in results]
    option = straight.OPTION if quantized else None
    gradient_model = vjp(parse(text), of=differentiated, wrt=model.wrt, quantized=option)
    seeds = {
        names(gradient_model)[name]: np.ones_like(value if name in of else value.reshape(-1))
        for name, value in zip(differentiated, forward.values(), strict=True)
    }
    _assert_shapes_hold(gradient_model, model.feeds | seeds)
    if quantized:
        straight.judge(text, differentiated, model.wrt, model.feeds, kinks=kinks)
        return
    assert_gradient(
        text,
        differentiated,
        model.wrt,
        model.feeds,
        second_order=second_order and draw(st.sampled_from((False, False, False, True))),
        kinks=kinks,
        elements=10,
        directions=2,
    )


def _assert_shapes_hold(model: ir.Model, arguments: dict[str, np.ndarray]) -> None:
    """All tensors must have the shapes that the model's graph says, of which equal ones agree."""
    graph = model.graph
    values = [v for node in graph for v in node.outputs if v.name and not is_sequence(v)]
    graph.outputs[:] = values
    results = compile(model, optimization="disabled", threads=1)(arguments)
    sizes: dict[object, int] = {}
    for value in (*graph.inputs, *values):
        found = np.shape((arguments | results)[str(value.name)])
        producer = value.producer()
        if found[:1] == (0,) and producer is not None and is_loop(producer):
            continue  # ONNX Runtime 1.32 gives other sizes to a stack of nothing
        message = f"'{value.name}' is {describe(value)} in the graph and {found} when it runs"
        assert value.shape is None or len(value.shape) == len(found), message
        for dim, size in zip(value.shape or (), found, strict=False):
            known = dim if isinstance(dim, int) else sizes.setdefault(dim.value or object(), size)
            assert size == known, message


class _Model:
    """The text of a model around an operator, its arguments, and what to differentiate by.

    The inputs of the operator have shapes in numbers or in symbols, of which equal sizes may share
    one, or ranks that only the run tells. Those that are not differentiated by may be constants.
    """

    def __init__(
        self, draw: Draw, opset: int, declared: Sequence[str], letters: Mapping[str, Sequence[str]]
    ) -> None:
        self._draw = draw
        self._opset = opset
        self._declared = declared
        self._letters = letters
        self._dims: dict[str, str] = {}
        self._head: list[str] = []
        self._body: list[str] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.wrt: list[str] = []

    def give(self, inputs: Mapping[str, np.ndarray], fixed: Sequence[str]) -> None:
        """Draw how the model gets the inputs, and by which of those not fixed to differentiate."""
        floats = [n for n, value in inputs.items() if value.dtype.kind == "f" and n not in fixed]
        first = self._draw(st.sampled_from(floats))
        for name, value in inputs.items():
            active = name in floats and (
                name == first or self._draw(st.sampled_from((True, True, False)))
            )
            ways = ["known", *(["unknown"] if "unknown" in self._declared else [])]
            ways += [] if active or name in self._letters else ["constant"]
            self._give(name, value, self._draw(st.sampled_from(ways)), active)

    def _give(self, name: str, value: np.ndarray, way: str, active: bool) -> None:
        dtype, given = _TYPES[value.dtype.name], name
        if way == "constant":
            self._body.append(f"{name} = {constant(value)}")
            return
        if way == "known":
            own = self._letters.get(name, [f"{name}_{index}" for index in range(value.ndim)])
            dims = list(map(self._dim, value.shape, own))
            self._head.append(f"{dtype}{_brackets(dims)} {name}")
        else:
            given = f"{name}_flat"
            self._head.append(f"{dtype}[{name}_n] {given}, int64[{name}_r] {name}_shape")
            allowzero = "<allowzero = 1>" if self._opset >= 14 else ""
            self._body.append(f"{name} = Reshape{allowzero}({given}, {name}_shape)")
            self.feeds[f"{name}_shape"] = ints(value.shape)
        self.feeds[given] = value if way == "known" else value.reshape(-1)
        if active:
            self.wrt.append(given)

    def _dim(self, size: int, own: str) -> str:
        if own == "-":
            return str(size)
        if own not in self._dims:
            ways = [*([size] if "numbers" in self._declared else []), own, f"N{size}"]
            self._dims[own] = str(self._draw(st.sampled_from(ways)))
        return self._dims[own]

    def text(self, nodes: str, results: Sequence[str]) -> str:
        """Return the model that computes results with some nodes."""
        head, body = ", ".join(self._head), " ".join([*self._body, nodes])
        imports = f'"": {self._opset}' + ', "com.microsoft": 1' * ("com.microsoft" in nodes)
        header = f"<ir_version: 10, opset_import: [{imports}]> model "
        return f"{header}({head}) => ({', '.join(results)}) {{ {body} }}"

    def run(self, nodes: str, results: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the results of the nodes, or give up this example if no engine computes them."""
        model = parse(self.text(nodes, [f"float[] {name}" for name in results]))
        try:
            return compile(model, threads=1)(self.feeds)
        except EngineError as error:
            event(f"refused: {error}"[:160])
            reject()


def _result(draw: Draw, name: str, value: np.ndarray) -> tuple[str, str, str]:
    """Return what to differentiate for an output, its declaration, and the node that makes it."""
    dtype = _TYPES[value.dtype.name]
    if draw(st.booleans()):
        return name, f"{dtype}{_brackets([f'{name}_{i}' for i in range(value.ndim)])} {name}", ""
    line = f"{name}_line"
    after = f"{line}_shape = {constant(ints([-1]))} {line} = Reshape({name}, {line}_shape) "
    return line, f"{dtype}[{name}_n] {line}", after


def _brackets(dims: Sequence[object]) -> str:
    return f"[{','.join(map(str, dims))}]" if dims else ""


def constant(value: np.ndarray) -> str:
    """Return the node that holds a value."""
    plain = value.astype(np.int64) if value.dtype.kind == "b" else value
    elements = ", ".join(map(str, plain.reshape(-1).tolist()))
    return f"Constant<value = {_TYPES[value.dtype.name]}{_brackets(value.shape)} {{{elements}}}>()"
