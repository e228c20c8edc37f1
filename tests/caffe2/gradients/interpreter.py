"""Runs nets in float64 by what Caffe2's operators mean, loops and workspaces included.

It knows nothing of how a net is read or differentiated: what it computes is the truth for central
differences, and for what a gradient net does when it runs once or twice.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np

from whileback.formats.caffe2.arguments import Arguments, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

Arrays = dict[str, np.ndarray]


class Cell:
    """A blob: None, a tensor, or a stack of workspaces."""

    def __init__(self) -> None:
        self.content = None


class Stack:
    """A scope: the workspaces that Dos left behind; those above the top wait to be used again."""

    def __init__(self) -> None:
        self.workspaces: list[Workspace] = []
        self.top = 0


class Workspace:
    """Names of blobs, some of which stand for blobs of the workspace around it."""

    def __init__(self) -> None:
        self.cells: dict[str, Cell] = {}
        self.nets: dict[str, NetDef] = {}

    def cell(self, name: str) -> Cell:
        return self.cells.setdefault(name, Cell())

    def read(self, name: str):
        content = self.cell(name).content
        assert content is not None, f"'{name}' holds nothing"
        return content

    def run(self, net: NetDef) -> None:
        for op in net.op:
            if op.type in CONTROLS:
                CONTROLS[op.type](self, op)
            else:
                inputs = [self.read(name) for name in op.input]
                results = OPERATORS[op.type](Arguments(op), *inputs)
                results = results if isinstance(results, tuple) else (results,)
                for name, result in zip(op.output, results, strict=True):
                    self.cell(name).content = np.asarray(result)


def run(net: NetDef, *feeds: Arrays) -> Arrays:
    """Run a net in one workspace, once for each of the feeds, and return the tensors it leaves."""
    workspace = Workspace()
    for arrays in feeds:
        for name, array in arrays.items():
            wide = array.astype(np.float64) if array.dtype == np.float32 else array
            workspace.cell(name).content = np.array(wide)
        workspace.run(net)
    found = {name: cell.content for name, cell in workspace.cells.items()}
    return {name: array for name, array in found.items() if isinstance(array, np.ndarray)}


def _net(op: OperatorDef, name: str) -> NetDef | None:
    return dict(subnets(op)).get(name)


def _if(workspace: Workspace, op: OperatorDef) -> None:
    condition = workspace.read(op.input[0])
    assert condition.dtype == bool and condition.size == 1
    net = _net(op, "then_net" if condition.ravel()[0] else "else_net")
    if net is not None:
        workspace.run(net)


def _while(workspace: Workspace, op: OperatorDef) -> None:
    condition = _net(op, "cond_net")
    for _ in range(1000):
        if condition is not None:
            workspace.run(condition)
        if not workspace.read(op.input[0]).ravel()[0]:
            return
        workspace.run(_net(op, "loop_net"))
    raise AssertionError("the loop does not end")


def _create_scope(workspace: Workspace, op: OperatorDef) -> None:
    cell = workspace.cell(op.output[0])
    if not isinstance(cell.content, Stack):
        cell.content = Stack()
    cell.content.top = 0


def _has_scope(workspace: Workspace, op: OperatorDef) -> None:
    workspace.cell(op.output[0]).content = np.array([workspace.read(op.input[0]).top > 0])


def _do(workspace: Workspace, op: OperatorDef) -> None:
    args, net = Arguments(op), _net(op, "net")
    stack = workspace.read(op.input[-1])
    outer = [*op.input[:-1], *op.output[:-1]]
    assert op.input[-1] == op.output[-1] and net.name
    places = args.ints("outer_blobs_idx", [])
    assert sorted({outer[place] for place in places}) == sorted(set(outer)) and len(
        set(outer)
    ) == len(places)
    bound = zip(args.names("inner_blobs", []), places, strict=True)
    bound = {inner: workspace.cell(outer[place]) for inner, place in bound}
    if op.is_gradient_op:
        assert stack.top, "no workspace is left"
        stack.top -= 1
        inside = stack.workspaces[stack.top]
        inside.cells = bound | inside.cells
    else:
        inside = _pushed(stack, args.bool("reuse_workspace", False))
        inside.cells |= bound
    inside.run(inside.nets.setdefault(net.name, net))
    if args.bool("copy_external_blobs", False):
        for name, cell in bound.items():
            inside.cells[name] = Cell()
            inside.cells[name].content = deepcopy(cell.content)


def _pushed(stack: Stack, reuse: bool) -> Workspace:
    if reuse and stack.top:
        return stack.workspaces[stack.top - 1]
    if stack.top == len(stack.workspaces):
        stack.workspaces.append(Workspace())
    stack.top += 1
    return stack.workspaces[stack.top - 1]


CONTROLS: dict[str, Callable[[Workspace, OperatorDef], None]] = {
    "If": _if,
    "While": _while,
    "Do": _do,
    "CreateScope": _create_scope,
    "HasScope": _has_scope,
}


def _fill(args: Arguments, like=None):
    dtypes = {1: np.float64, 2: np.int32, 5: np.bool_, 10: np.int64, 13: np.float64}
    shape = args.ints("shape", []) if like is None else like.shape
    return np.full(shape, args.float("value", 0.0), dtypes[args.int("dtype", 1)])


def _reduced(dY, like):
    """The sum of a gradient over the axes along which a tensor was repeated."""
    extra = dY.ndim - like.ndim
    dY = dY.sum(axis=tuple(range(extra)))
    axes = tuple(axis for axis, size in enumerate(like.shape) if size == 1 and dY.shape[axis] != 1)
    return dY.sum(axis=axes, keepdims=True)


def _scattered(_, X, one, indices, values, weight):
    X = X.copy()
    np.add.at(X, indices, values * weight)
    return X


OPERATORS: dict[str, Callable] = {
    "Add": lambda _, A, B: A + B,
    "And": lambda _, A, B: A & B,
    "AddGradient": lambda _, dC, A, B: (_reduced(dC, A), _reduced(dC, B)),
    "Concat": lambda args, *X: (np.concatenate(X, args.int("axis")), len(X)),
    "ConstantFill": _fill,
    "Copy": lambda _, X: X.copy(),
    "Gather": lambda _, X, indices: X[indices],
    "GT": lambda _, A, B: A > B,
    "LE": lambda _, A, B: A <= B,
    "LT": lambda _, A, B: A < B,
    "Mul": lambda _, A, B: A * B,
    "MulGradient": lambda _, dC, A, B: (_reduced(dC * B, A), _reduced(dC * A, B)),
    "Negative": lambda _, X: -X,
    "Scale": lambda args, X: X * args.float("scale", 1.0),
    "ScatterWeightedSum": _scattered,
    "Sigmoid": lambda _, X: 1 / (1 + np.exp(-X)),
    "SigmoidGradient": lambda _, Y, dY: dY * Y * (1 - Y),
    "Sqr": lambda _, X: X * X,
    "StopGradient": lambda _, X: X.copy(),
    "Sub": lambda _, A, B: A - B,
    "SubGradient": lambda _, dC, A, B: (_reduced(dC, A), _reduced(-dC, B)),
    "Sum": lambda _, *X: sum(X[1:], X[0]),
    "Tanh": lambda _, X: np.tanh(X),
    "TanhGradient": lambda _, Y, dY: dY * (1 - Y * Y),
}
