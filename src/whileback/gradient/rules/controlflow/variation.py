"""Which values of a loop's body may change their shape from trip to trip."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import onnx_ir as ir

from whileback.gradient.rules.controlflow.trips import runs_to_the_limit
from whileback.graph.scopes import (
    Carry,
    LoopView,
    branches,
    captures,
    is_loop,
    is_standard,
    loop_view,
    operands,
)
from whileback.graph.shapes import same_shape

__all__ = ["shape_varies"]

# The inputs whose values, not only whose shapes, decide on the shape of the output.
SHAPE_ARGUMENTS: dict[str, tuple[int, ...]] = {
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (0, 1),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "MaxUnpool": (2,),
    "NonZero": (0,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (2, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unique": (0,),
}


SYMBOL = re.compile(r"[^\W\d]\w*")


class _Variation:
    def __init__(self, view: LoopView, drawn: Collection[ir.Value]) -> None:
        self.drawn = drawn
        self.symbols = _outer_symbols(view)
        self.held = _held(view)
        self.values = {c.input for c in view.carries} | {s.row for s in view.scan_inputs}
        if view.trip is not None:
            self.values.add(view.trip)
        self.shapes: set[ir.Value] = set()

    def run(self, view: LoopView) -> None:
        while True:
            for node in view.body:
                self.visit(node)
            changed = {c.input for c in view.carries if self._changes(c)}
            if changed <= self.shapes:
                return
            self.shapes |= changed

    def _changes(self, carry: Carry) -> bool:
        if carry.output in self.held:
            return False
        before, after = carry.input.shape, carry.output.shape
        if not isinstance(carry.initial.type, ir.TensorType):
            return True
        if carry.output in self.shapes or before is None:
            # Where a rank is known outside but not in the body, inference has seen it change.
            return carry.output in self.shapes or carry.initial.shape is not None
        return after is not None and not same_shape(carry.input, carry.output)

    def visit(self, node: ir.Node) -> None:
        """Find out which outputs of a node vary."""
        read = [value for value in operands(node) if value is not None]
        shapes_vary = any(value in self.shapes for value in read)
        if is_standard(node, "Shape", "Size"):
            values_vary = shapes_vary
        else:
            values_vary = shapes_vary or any(value in self.values for value in read)
        if values_vary:
            self.values.update(node.outputs)
        for output in node.outputs:
            if output in self.held or self._is_fixed(output):
                continue
            if shapes_vary or self._reshapes(node, output):
                self.shapes.add(output)

    def _is_fixed(self, value: ir.Value) -> bool:
        """Tell whether all dimensions are numbers, or computed from sizes outside the loop."""
        if value.shape is None or not isinstance(value.type, ir.TensorType):
            return False
        dims = [dim for dim in value.shape if not isinstance(dim, int)]
        return all(dim.value and set(SYMBOL.findall(dim.value)) <= self.symbols for dim in dims)

    def _reshapes(self, node: ir.Node, output: ir.Value) -> bool:
        """Tell whether the node gives this output another shape in another trip."""
        if is_standard(node, "If"):
            condition = node.inputs[0]
            sides = [branch.outputs[output.index() or 0] for branch in branches(node)]
            return condition in self.values and not same_shape(*sides)
        if is_loop(node):
            return self._loop_reshapes(loop_view(node), output)
        indices = SHAPE_ARGUMENTS.get(node.op_type, ())
        return any(i < len(node.inputs) and node.inputs[i] in self.values for i in indices)

    def _loop_reshapes(self, view: LoopView, output: ir.Value) -> bool:
        for carry in view.carries:
            if carry.result is output:
                return not same_shape(carry.initial, output)
        if output in self.drawn and view.limit not in self.values and runs_to_the_limit(view):
            return False
        return not view.scan_inputs


def _held(view: LoopView) -> set[ir.Value]:
    """Return what has one shape in all trips, since a `Scan` may not change that of its results."""
    if not is_standard(view.node, "Scan"):
        return set()
    return {carry.output for carry in view.carries} | {scan.row for scan in view.scan_outputs}


def _outer_symbols(view: LoopView) -> set[str]:
    """Return the symbols for sizes that are the same in every trip."""
    outer = [carry.initial for carry in view.carries] + captures(view.body)
    shapes = [value.shape for value in outer] + [scan.stack.shape for scan in view.scan_inputs]
    dims = [dim for shape in shapes for dim in shape or () if not isinstance(dim, int)]
    return {symbol for dim in dims for symbol in SYMBOL.findall(dim.value or "")} | {"max"}


def shape_varies(
    view: LoopView,
    drawn: Collection[ir.Value] = (),
    after: Iterable[ir.Node] = (),
    given: Iterable[ir.Value] = (),
) -> set[ir.Value]:
    """Return the values of the body whose shape may differ between two trips.

    Also of the nodes `after` it, such as those of its gradient, which read values that are `given`
    and vary.

    Of an inner loop the stacks count as such, however often it runs, but for those of what is
    `drawn`: all others can be had by running it again.

    A value whose shape is a known constant never does; one whose shape nothing tells is taken
    to keep it, unless an argument of its shape is computed from something that changes.
    """
    variation = _Variation(view, drawn)
    variation.run(view)
    variation.shapes.update(given)
    for node in after:
        variation.visit(node)
    return variation.shapes
