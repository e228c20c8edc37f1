"""The gradient of `Einsum`: for each operand, an `Einsum` of the cotangent with the others."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.graph.shapes import rank

_DOTS = "..."


@dataclass(frozen=True)
class _Equation:
    """The letters of the axes of each operand and of the output; an ellipsis may be among them."""

    operands: tuple[str, ...]
    output: str


@rule("Einsum")
def einsum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> list[ir.Value | None]:
    """Y = Σ A·B·…, so dA = Σ dY·B·… over the letters that A lacks.

    A letter that A alone has is a factor of ones, one that it repeats a factor 1 (the identity).
    """
    inputs = [required(node, index) for index in range(len(node.inputs))]
    equation = _parse(node.attributes.get_string("equation", ""))
    equation = _spell_out(equation, [rank(value) for value in inputs])
    return [
        _gradient(op, equation, inputs, index, dY) if value in op.active else None
        for index, value in enumerate(inputs)
    ]


def _parse(text: str) -> _Equation:
    left, arrow, right = text.replace(" ", "").partition("->")
    if not arrow:
        counts = Counter(left.replace(_DOTS, "").replace(",", ""))
        once = sorted(letter for letter, count in counts.items() if count == 1)
        right = (_DOTS if _DOTS in left else "") + "".join(once)
    return _Equation(tuple(left.split(",")), right)


def _spell_out(equation: _Equation, ranks: Sequence[int | None]) -> _Equation:
    """Put letters in place of the ellipsis, which is as long everywhere, if its length is known."""
    lengths = [
        count - len(_axes(term)) + 1
        for term, count in zip(equation.operands, ranks, strict=True)
        if _DOTS in term and count is not None
    ]
    if not lengths:
        return equation
    dots = "".join(islice(_free(equation), lengths[0]))
    operands = tuple(term.replace(_DOTS, dots) for term in equation.operands)
    return _Equation(operands, equation.output.replace(_DOTS, dots))


def _free(equation: _Equation) -> Iterator[str]:
    """Yield letters that the equation does not use."""
    used = set("".join(equation.operands))
    return (letter for letter in string.ascii_letters if letter not in used)


def _axes(term: str) -> list[str]:
    """Return the letters of a term, an ellipsis being one."""
    before, dots, after = term.partition(_DOTS)
    return [*before, *([dots] if dots else []), *after]


def _gradient(
    op: GradientBuilder,
    equation: _Equation,
    inputs: Sequence[ir.Value],
    index: int,
    dY: ir.Value,
) -> ir.Value:
    X, axes = inputs[index], _axes(equation.operands[index])
    terms = [equation.output, *equation.operands[:index], *equation.operands[index + 1 :]]
    factors = [dY, *inputs[:index], *inputs[index + 1 :]]
    known, free = {letter for term in terms for letter in _axes(term)}, _free(equation)
    for position, letter in enumerate(axes):
        if letter in known and letter not in axes[:position]:
            continue
        size = op.dim(X, _from_either_end(axes, position))
        if letter in axes[:position]:
            axes[position] = next(free)
            terms.append(letter + axes[position])
            factors.append(_identity(op, size, X))
        else:
            terms.append(letter)
            factors.append(op.Expand(op.constant(1.0, X.dtype), size))
    dots = _DOTS if _DOTS in known and _DOTS not in axes else ""
    if terms != ["".join(axes)]:
        dY = op.Einsum(*factors, equation=f"{','.join(terms)}->{dots}{''.join(axes)}")
    return op.unbroadcast(op.expand(dY, X), X)


def _from_either_end(axes: list[str], position: int) -> int:
    """Count an axis behind an ellipsis from the end."""
    behind = _DOTS in axes and axes.index(_DOTS) < position
    return position - len(axes) if behind else position


def _identity(op: GradientBuilder, size: ir.Value, like: ir.Value) -> ir.Value:
    """Return the identity matrix of a size, INT64[1]."""
    numbers = op.arange(size)
    return op.cast(op.Equal(op.Unsqueeze(numbers, [1]), numbers), like)
