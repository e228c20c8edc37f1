"""Dimensions of shapes: which are surely equal, and which names they go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import onnx_ir as ir

from whileback.graph.corrections import joined
from whileback.graph.scopes import definitions, walk_graphs

__all__ = [
    "contradict",
    "dims_if_kept",
    "fill_dims",
    "given_symbols",
    "kept_but_for",
    "names_of",
    "only_of",
    "open_dim",
    "plain_symbols",
    "prefer",
    "rename_symbols",
    "reshape_target",
    "same_dim",
    "same_dims",
    "with_numbers",
    "without_axis",
    "without_symbols",
]


# Where a graph remembers the symbols that its model gives.
GIVEN = "whileback.symbols"


def open_dim() -> ir.SymbolicDim:
    """Return a dimension that has no name yet, so that a declared one may take its place."""
    return ir.SymbolicDim(None)


def same_dim(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    """Tell whether two dimensions are surely equal: the same number or the same symbol."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a.value is not None and a.value == b.value


def same_dims(a: ir.Shape, b: ir.Shape) -> bool:
    """Tell whether all dimensions of two shapes of one rank are surely equal."""
    return all(same_dim(m, n) for m, n in zip(a, b, strict=True))


def dims_if_kept(
    before: ir.Shape, after: ir.Shape | None, is_unknown: Callable[[str], bool]
) -> ir.Shape | None:
    """Return the shape before and after a trip if nothing tells that they differ, else None.

    So it is with `N` and 4, with `N` and what `N` and another one are broadcast to, and with a
    symbol that only says that a size `is_unknown`, and another one.
    """
    if after is None or len(before) != len(after):
        return None
    dims: list[int | ir.SymbolicDim] = []
    for m, n in zip(before, after, strict=True):
        if isinstance(m, int):
            if m != n:
                return None
            dims.append(m)
        elif isinstance(n, int):
            dims.append(n)
        elif m.value is not None and m.value in joined(n.value or ""):
            dims.append(m)
        elif is_unknown(m.value or "") and not all(map(is_unknown, joined(n.value or ""))):
            dims.append(n)
        else:
            return None
    return ir.Shape(dims)


def kept_but_for(symbols: set[str], before: ir.Shape, after: ir.Shape | None) -> bool:
    """Tell whether a trip keeps all dimensions but for those that are one of some symbols."""
    if after is None or len(before) != len(after):
        return False
    return all(
        same_dim(m, n) or (not isinstance(m, int) and m.value in symbols)
        for m, n in zip(before, after, strict=True)
    )


def names_of(declared: ir.Shape | None, actual: ir.Shape | None) -> dict[str, int | ir.SymbolicDim]:
    """Return what the dimensions are that a declared shape has names for."""
    pairs = zip(declared or (), actual or (), strict=False)
    return {m.value: n for m, n in pairs if not isinstance(m, int) and m.value}


def only_of(
    symbols: set[str], names: dict[str, int | ir.SymbolicDim]
) -> dict[str, int | ir.SymbolicDim]:
    """Return the names of those dimensions that are one of some symbols."""
    return {k: n for k, n in names.items() if not isinstance(n, int) and n.value in symbols}


def prefer(actual: ir.Shape | None, declared: ir.Shape | None) -> ir.Shape | None:
    """Return the shape outside the loop, with sizes that only the declared one tells."""
    if actual is None:
        return declared
    if declared is None or len(actual) != len(declared):
        return actual
    pairs = zip(actual, declared, strict=True)
    return ir.Shape([m if isinstance(m, int) or not isinstance(n, int) else n for m, n in pairs])


def rename_symbols(
    shape: ir.Shape | None, names: dict[str, int | ir.SymbolicDim]
) -> ir.Shape | None:
    """Let dimensions that a body calls by names of its own have those from outside."""
    if shape is None or not names:
        return shape
    return ir.Shape(
        [d if isinstance(d, int) or d.value is None else names.get(d.value, d) for d in shape]
    )


def without_symbols(shape: ir.Shape | None) -> ir.Shape | None:
    """Forget declared symbols, since inferred ones relate a value to others."""
    if shape is None or shape.is_static():
        return shape
    return ir.Shape([dim if isinstance(dim, int) else None for dim in shape])


def fill_dims(shape: ir.Shape | None, declared: ir.Shape | None) -> ir.Shape | None:
    """Return the shape with what is declared where it says nothing."""
    if shape is None:
        return declared
    if declared is None or len(shape) != len(declared) or shape.is_static():
        return shape
    pairs = zip(shape, declared, strict=True)
    return ir.Shape([n if not isinstance(m, int) and m.value is None else m for m, n in pairs])


def contradict(a: ir.Shape, b: ir.Shape) -> bool:
    """Tell whether two shapes have other ranks, or other numbers along an axis."""
    if len(a) != len(b):
        return True
    return any(
        isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a, b, strict=True)
    )


def reshape_target(shape: Iterable[int | ir.SymbolicDim] | None) -> list[int] | None:
    """Return a shape as `Reshape` takes it: -1 for the one dimension that is not known.

    None where more than one is unknown, or where another one is 0: then -1 could be anything.
    """
    if shape is None:
        return None
    dims = [dim if isinstance(dim, int) else -1 for dim in shape]
    if -1 in dims and (dims.count(-1) > 1 or 0 in dims):
        return None
    return dims


def with_numbers(shape: ir.Shape | None) -> ir.Shape | None:
    """Return the shape with numbers for the symbols that are called like one, as `N/N` may be."""
    if shape is None:
        return None
    names = [None if isinstance(dim, int) else dim.value for dim in shape]
    pairs = zip(shape, names, strict=True)
    return ir.Shape([int(name) if name and name.isdecimal() else dim for dim, name in pairs])


def without_axis(shape: ir.Shape | None, axis: int) -> ir.Shape | None:
    """Return the shape of a row along an axis."""
    if shape is None or not len(shape):
        return None
    dims = list(shape)
    del dims[axis]
    return ir.Shape(dims)


def plain_symbols(graph: ir.Graph) -> None:
    """Give plain names to symbols with which no arithmetic can be done, such as `a/b`."""
    symbols = {
        dim.value: None
        for value in _values(graph)
        for dim in value.shape or ()
        if not isinstance(dim, int) and dim.value
    }
    strange = [symbol for symbol in symbols if not symbol.isidentifier()]
    plain = (name for k in count() if (name := f"size_{k}") not in symbols)
    names = dict(zip(strange, plain, strict=False))
    _replace_symbols(graph, names)
    graph.meta[GIVEN] = {name: symbol for symbol, name in names.items()}


def given_symbols(graph: ir.Graph) -> None:
    """Undo `plain_symbols`."""
    _replace_symbols(graph, graph.meta.get(GIVEN, {}))


def _replace_symbols(graph: ir.Graph, names: dict[str, str]) -> None:
    dims: dict[str, int | ir.SymbolicDim] = {k: ir.SymbolicDim(v) for k, v in names.items()}
    for value in _values(graph) if dims else ():
        value.shape = rename_symbols(value.shape, dims)


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    for each in walk_graphs(graph):
        yield from definitions(each)
