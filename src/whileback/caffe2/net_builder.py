"""Nets written in Python: operators are methods, blobs values, loops and branches blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from whileback.errors import ArgumentError, nearest
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProto

__all__ = ["Blob", "NetBuilder"]


@dataclass(frozen=True, eq=False)
class Blob:
    """A blob of a net that is being built; arithmetic and comparisons add operators to it."""

    name: str
    builder: NetBuilder = field(repr=False)

    def __add__(self, other: Blob | float) -> Blob:
        return self._with("Add", other)

    def __sub__(self, other: Blob | float) -> Blob:
        return self._with("Sub", other)

    def __mul__(self, other: Blob | float) -> Blob:
        return self._with("Mul", other)

    def __truediv__(self, other: Blob | float) -> Blob:
        return self._with("Div", other)

    def __matmul__(self, other: Blob) -> Blob:
        return self._with("MatMul", other)

    def __neg__(self) -> Blob:
        return self._with("Negative")

    def __lt__(self, other: Blob | float) -> Blob:
        return self._with("LT", other)

    def __le__(self, other: Blob | float) -> Blob:
        return self._with("LE", other)

    def __gt__(self, other: Blob | float) -> Blob:
        return self._with("GT", other)

    def __ge__(self, other: Blob | float) -> Blob:
        return self._with("GE", other)

    def _with(self, op_type: str, *others: Blob | float) -> Blob:
        result: Blob = getattr(self.builder, op_type)(self, *others)
        return result

    def __bool__(self) -> bool:
        raise ArgumentError(
            f"Blob '{self.name}' has no value while its net is built; branch with net.if_(blob), "
            "loop with net.while_()."
        )


class _Block:
    """The operators of a net or of a block in it, and the blobs that exist only there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ops: list[OperatorDef] = []
        self.blobs: set[str] = set()
        # The condition of a loop, which stands in a block of its own inside the loop's.
        self.condition: _Block | None = None
        # How many branches the last operator still takes.
        self.takes_else = False

    def read(self) -> list[str]:
        """The blobs of blocks outside that the operators read."""
        return [n for n in _names(op.input for op in self.ops) if n not in self.blobs]

    def written(self) -> list[str]:
        """The blobs of blocks outside that the operators write."""
        return [n for n in _names(op.output for op in self.ops) if n not in self.blobs]


class NetBuilder:
    """Builds a net for Caffe2 from Python.

    An operator is a method: inputs come first, then arguments by name. It returns the blob that
    it writes, a new one, or the one given as `out=`, which is overwritten (`out=[…]` for several
    outputs). A number among the inputs becomes a constant: a float FLOAT, an int INT64.

    A blob made in a block (a loop's body, a branch) exists only there; to hand a value out, write
    it to a blob from outside: `net.Tanh(y, out=y)`. What is built can run in a `Workspace`, be
    differentiated and saved: see `proto`.

    >>> with NetBuilder("power") as net:
    ...     x, n = net.input("x"), net.input("n")
    ...     y, i = net.Copy(x, out="y"), net.constant(1, out="i")
    ...     with net.while_():
    ...         with net.condition():
    ...             _ = net.LT(i, n)
    ...         _ = net.Mul(y, x, out=y)
    ...         _ = net.Add(i, 1, out=i)
    ...     with net.if_(n > 100):
    ...         _ = net.Scale(y, scale=0.5, out=y)
    >>> [op.type for op in net.proto().op]  # doctest: +NORMALIZE_WHITESPACE
    ['Copy', 'GivenTensorInt64Fill', 'ConstantFill', 'CreateScope', 'CreateScope', 'While',
     'GivenTensorInt64Fill', 'GT', 'CreateScope', 'If']
    """

    def __init__(self, name: str) -> None:
        if not name:
            raise ArgumentError("name= is empty; a net needs a name, which tells it from others.")
        self.name = name
        self._blocks = [_Block(name)]
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._taken: set[str] = set()
        self._finished = False

    def __enter__(self) -> NetBuilder:
        return self

    def __exit__(self, *exception: object) -> None:
        self._finished = True

    def proto(self) -> NetDef:
        """Return the net as a message of its own."""
        net = NetDef(name=self.name, op=self._blocks[0].ops, external_input=self._inputs)
        net.external_output.extend(self._outputs)
        return net

    def input(self, name: str) -> Blob:
        """Declare a blob that is there before the net runs."""
        self._check_new(name)
        self._inputs.append(name)
        return self._declare(self._blocks[0], name)

    def output(self, *blobs: Blob | str) -> None:
        """Declare blobs as results of the net, in `external_output`."""
        self._outputs.extend(self._name(blob) for blob in blobs)

    def constant(self, value: float | Sequence[float], out: Blob | str | None = None) -> Blob:
        """Add a constant: FLOAT for floats, INT64 for ints, BOOL for a truth value.

        A list has shape [its length], a number shape [].
        """
        values = list(value) if isinstance(value, Sequence) else [value]
        kind = {bool: "Bool", int: "Int64"}.get(type(values[0]) if values else float, "")
        if not kind:
            values = [float(each) for each in values]
        shape = [len(values)] if isinstance(value, Sequence) else []
        args = {"shape": shape, "values": values}
        blob: Blob = getattr(self, f"GivenTensor{kind}Fill")(out=out, **args)
        return blob

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def add(*inputs: Blob | str | float, out: Any = None, **args: Any) -> Any:
            return self._add(op_type, inputs, out, args)

        return add

    def _add(
        self, op_type: str, inputs: Sequence[Blob | str | float], out: Any, args: dict[str, Any]
    ) -> Blob | tuple[Blob, ...]:
        names = [self._name(each) for each in inputs]
        several = isinstance(out, (list, tuple))
        outputs = [self._target(each, op_type) for each in (out if several else [out])]
        op = OperatorDef(type=op_type, input=names, output=[blob.name for blob in outputs])
        for key, value in args.items():
            add_argument(op, key, value)
        self._append(op)
        return tuple(outputs) if several else outputs[0]

    def _append(self, op: OperatorDef, takes_else: bool = False) -> None:
        if self._finished:
            raise ArgumentError(f"Net '{self.name}' is finished; add operators inside its block.")
        block = self._blocks[-1]
        block.takes_else = takes_else
        block.ops.append(op)

    # Blobs

    def _declare(self, block: _Block, name: str) -> Blob:
        self._taken.add(name)
        block.blobs.add(name)
        return Blob(name, self)

    def _check_new(self, name: str) -> None:
        if name in self._taken:
            raise ArgumentError(
                f"Net '{self.name}' has a blob '{name}' already; choose another name."
            )

    def _fresh(self, base: str) -> str:
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def _name(self, blob: Blob | str | float) -> str:
        """Return the name of a blob that can be read here."""
        if isinstance(blob, (int, float)):
            return self.constant(blob).name
        name = blob.name if isinstance(blob, Blob) else blob
        if any(name in block.blobs for block in self._blocks):
            return name
        if name in self._taken:
            raise ArgumentError(
                f"Blob '{name}' exists only in the block that made it; write its value to a blob "
                "from outside (out=…) to use it here."
            )
        known = [each for block in self._blocks for each in block.blobs]
        raise ArgumentError(
            f"Net '{self.name}' has no blob '{name}'; {nearest(name, known)} Declare inputs with "
            "net.input(name)."
        )

    def _target(self, out: Blob | str | None, op_type: str) -> Blob:
        """Return the blob to write: a known one, or a new one of this block."""
        block = self._blocks[-1]
        if out is None:
            return self._declare(block, self._fresh(f"{block.name}/{op_type}"))
        if isinstance(out, str) and out not in self._taken:
            return self._declare(block, out)
        return Blob(self._name(out), self)

    # Blocks

    @contextmanager
    def while_(self) -> Iterator[None]:
        """Add a loop: `condition()` comes first in its block, then the body's operators.

        Every trip starts with the operators of the condition; the loop ends when the last of them
        yields false.
        """
        with self._block("while") as block:
            yield
            condition = block.condition
        if condition is None:
            raise ArgumentError(
                "A loop has no condition; write 'with net.condition(): …' first in its block."
            )
        self._add_while(block, condition)

    def _add_while(self, body: _Block, condition: _Block) -> None:
        test = condition.ops[-1].output[0]
        if test in condition.blobs:
            condition.blobs.discard(test)
            self._declare(self._blocks[-1], test)
            fill = OperatorDef(type="ConstantFill", output=[test])
            add_argument(fill, "dtype", TensorProto.BOOL)
            add_argument(fill, "value", 0)
            self._append(fill)
        op = OperatorDef(type="While", input=[test])
        for name, block in (("loop_net", body), ("cond_net", condition)):
            self._add_do(op, name, block)
        self._append(op)

    @contextmanager
    def condition(self) -> Iterator[None]:
        """Add the condition of a loop: the output of its last operator decides."""
        loop = self._blocks[-1]
        if not loop.name.endswith("/body") or loop.ops or loop.condition is not None:
            raise ArgumentError(
                "net.condition() stands first in the block of net.while_(), and once."
            )
        with self._block("condition", inside=loop) as block:
            yield
        if not block.ops or len(block.ops[-1].output) != 1:
            raise ArgumentError(
                "The condition of a loop must end with an operator of one output, which decides "
                "whether there is another trip."
            )
        loop.condition = block

    @contextmanager
    def if_(self, condition: Blob | str) -> Iterator[None]:
        """Add a branch that is taken if the condition, one truth value, is true."""
        test = self._name(condition)
        with self._block("then") as block:
            yield
        op = OperatorDef(type="If", input=[test])
        self._add_do(op, "then_net", block)
        self._append(op, takes_else=True)

    @contextmanager
    def else_(self) -> Iterator[None]:
        """Add what is done if the condition of the `if_` just before is false."""
        if not self._blocks[-1].takes_else:
            raise ArgumentError("net.else_() must follow directly after the block of net.if_().")
        op = self._blocks[-1].ops.pop()
        with self._block("else") as block:
            yield
        self._add_do(op, "else_net", block)
        self._append(op)

    @contextmanager
    def _block(self, kind: str, inside: _Block | None = None) -> Iterator[_Block]:
        """Collect the operators of a block, and forget them if an exception leaves it."""
        suffix = "/body" if kind == "while" else ""
        parent = inside.name if inside is not None else self.name
        block = _Block(self._fresh(f"{parent}/{kind}") + suffix)
        self._blocks.append(block)
        try:
            yield block
        finally:
            self._blocks.pop()

    def _add_do(self, op: OperatorDef, argument: str, block: _Block) -> None:
        """Give a loop or a branch its net: one `Do`, with a scope of its own."""
        scope = self._fresh(f"{block.name}/scope")
        self._blocks[-1].blobs.add(scope)
        self._append(OperatorDef(type="CreateScope", output=[scope]))
        read, written = block.read(), block.written()
        names = list(dict.fromkeys([*read, *written]))
        do = OperatorDef(type="Do", input=[*read, scope], output=[*written, scope])
        add_argument(do, "net", NetDef(name=block.name, op=block.ops))
        add_argument(do, "inner_blobs", names)
        add_argument(do, "outer_blobs_idx", [(read + written).index(name) for name in names])
        add_argument(op, argument, NetDef(name=f"{block.name}/net", op=[do]))
        # What is written is read as well: the loop may make no trip, the branch not be taken.
        _extend(op.input, [*read, *written, scope])
        _extend(op.output, [*written, scope])


def _names(lists: Iterator[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in names))


def _extend(names: Any, more: Sequence[str]) -> None:
    names.extend(name for name in dict.fromkeys(more) if name not in names)
