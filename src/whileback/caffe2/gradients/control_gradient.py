"""The gradient of one control operator, as a net's gradient has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from whileback.caffe2.gradients.activity import mark
from whileback.caffe2.gradients.backward import Backward, Session
from whileback.caffe2.gradients.bindings import all_names, is_forward_do, scope_of
from whileback.caffe2.gradients.emission import copy_to, pruned
from whileback.caffe2.gradients.finishing import Finisher
from whileback.caffe2.gradients.naming import final_names, rename
from whileback.caffe2.gradients.nesting import limited
from whileback.caffe2.gradients.parsing import NETS, Parser
from whileback.caffe2.gradients.regions import Control, Frame
from whileback.caffe2.gradients.rewriting import Rewriter
from whileback.caffe2.reading.nets import parse
from whileback.errors import ArgumentError, NetDefError
from whileback.formats.caffe2.arguments import Arguments, label, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["gen_do_gradient", "gen_if_gradient", "gen_while_gradient", "rewrite_forward"]

Gradients = tuple[list[OperatorDef], list[str | None]]


def gen_while_gradient(op: OperatorDef, g_output: Sequence[str | None]) -> Gradients:
    """Return the gradient of a `While`: a `While` that takes its trips back, and what it needs.

    The body, and a condition net that writes what is differentiated, must be single `Do`s, each
    with a scope of its own. The blobs around the operator must still hold what they held when it
    ended.

    Args:
        op: the operator.
        g_output: for each output the blob that holds its gradient, or None.

    Returns: the operators, and for each input the blob that holds its gradient, or None. The
    gradients that were given are only read: the first operators copy them.

    Raises:
        ArgumentError: not a `While`, or gradients that do not match its outputs.
        NetDefError: a malformed operator, or one that keeps too little for its gradient: see
            `rewrite_forward`.
        NoGradientError: operators without a gradient.

    >>> from whileback.caffe2 import NetBuilder
    >>> with NetBuilder("tanh") as net:
    ...     x, n, i = net.input("x"), net.input("n"), net.constant(0)
    ...     with net.while_():
    ...         with net.condition():
    ...             _ = net.LT(i, n)
    ...         _ = net.Tanh(x, out=x), net.Add(i, 1, out=i)
    >>> loop = rewrite_forward(net.proto().op[-1])
    >>> ops, g_input = gen_while_gradient(loop, ["gx" if b == "x" else None for b in loop.output])
    >>> [op.type for op in ops], g_input[list(loop.input).index("x")]
    (['Copy', 'HasScope', 'While'], 'x_grad')
    """
    return _gradient("While", op, g_output)


def gen_if_gradient(op: OperatorDef, g_output: Sequence[str | None]) -> Gradients:
    """Return the gradient of an `If`: an `If` that runs the gradient of the same branch.

    As `gen_while_gradient` in all else. What a branch does not touch gets zeros, or the gradient
    that came in. The condition must still hold what it held.

    >>> from whileback.caffe2 import NetBuilder
    >>> with NetBuilder("tanh") as net:
    ...     x, c = net.input("x"), net.input("c")
    ...     with net.if_(c):
    ...         _ = net.Tanh(x, out=x)
    >>> branch = rewrite_forward(net.proto().op[-1])
    >>> ops, g_input = gen_if_gradient(branch, ["gx", None])
    >>> [op.type for op in ops], g_input
    (['If'], [None, 'x_grad', None])
    """
    return _gradient("If", op, g_output)


def gen_do_gradient(op: OperatorDef, g_output: Sequence[str | None]) -> Gradients:
    """Return the gradient of a `Do`: a `Do` in the workspace that it left, as for a `While`.

    >>> from whileback.caffe2 import NetDef, OperatorDef
    >>> from whileback.formats.caffe2.arguments import add_argument
    >>> op = OperatorDef(type="Do", input=["x", "scope"], output=["y", "scope"])
    >>> tanh = OperatorDef(type="Tanh", input=["a"], output=["b"])
    >>> add_argument(op, "net", NetDef(name="body", op=[tanh]))
    >>> add_argument(op, "inner_blobs", ["a", "b"])
    >>> add_argument(op, "outer_blobs_idx", [0, 1])
    >>> ops, g_input = gen_do_gradient(op, ["gy", None])
    >>> [op.type for op in ops], g_input
    (['Do'], ['x_grad', None])
    """
    return _gradient("Do", op, g_output)


@limited
def rewrite_forward(op: OperatorDef) -> OperatorDef:
    """Return a `While`, `If` or `Do` that computes the same and keeps what its gradient reads.

    Its `Do`s copy what is overwritten to blobs of their own, and lose `copy_external_blobs`. An
    operator that keeps enough stays as it is.

    Raises: as `gen_while_gradient`.
    """
    if op.type not in NETS:
        raise ArgumentError(f"{label(op)} is no While, If or Do.")
    _check_form(op)
    work = _Work(op, {})
    for frame in (frame for name, frame in work.node.frames.items() if name != "cond_net"):
        for blob in frame.written():
            work.seed(blob, f"{blob}_grad")
    work.run()
    rewritten = work.rewriter.rewrite(work.region)
    work.check_outside()
    names = final_names(rewritten, work.session.own, {}, all_names(NetDef(op=[op])))
    rename(rewritten, names)
    return rewritten[-1]


@limited
def _gradient(op_type: str, op: OperatorDef, g_output: Sequence[str | None]) -> Gradients:
    """Return the gradient of an operator of a type."""
    if op.type != op_type:
        raise ArgumentError(f"{label(op)} is no {op_type} operator.")
    _check_given(op, g_output)
    _check_form(op)
    given = {blob: dy for blob, dy in zip(op.output, g_output, strict=True) if dy is not None}
    work = _Work(op, given)
    for blob, dy in given.items():
        work.seed(blob, dy)
    found = work.run()
    _check_loop(op, work)
    work.check_outside()
    work.check_kept()
    wishes = {dy: f"{blob}_grad" for blob, dy in reversed(found.items())}
    names = final_names(
        work.ops, work.session.own, wishes, all_names(NetDef(op=[op])) | set(given.values())
    )
    rename(work.ops, names)
    g_input = [found.get(blob) for blob in op.input]
    return work.ops, [None if dy is None else names.get(dy, dy) for dy in g_input]


class _Work:
    """One operator, as a net of its own that is differentiated."""

    def __init__(self, op: OperatorDef, given: Mapping[str, str]) -> None:
        self.op = op
        makers = [OperatorDef(type="CreateScope", output=[scope]) for scope in _scopes(op)]
        net = NetDef(op=[*makers, op])
        parser = Parser(net, given.values())
        self.region = parser.main(net, {*op.input, *op.output})
        mark(self.region, set(op.input), None)
        self.session = Session(parser.names, parser.net_names)
        self.back = Backward(self.session, self.region)
        self.ops: list[OperatorDef] = []
        self._given: set[str] = set()

    @property
    def node(self) -> Control:
        """The operator, taken apart."""
        node = self.region.nodes[-1]
        assert isinstance(node, Control)
        return node

    def seed(self, blob: str, dy: str) -> None:
        """Give the gradient of an output, of a copy if it is that of another one, too."""
        if dy in self._given:
            copy = self.session.fresh(f"{blob}_grad")
            self.back.ops.append(copy_to(dy, copy))
            dy = copy
        self._given.add(dy)
        self.back.add(self.region.last(blob), dy)

    def run(self) -> dict[str, str]:
        """Differentiate the operator, and return the gradients of its inputs, by blob."""
        self.back.run()
        self.session.check_complete()
        totals = {blob: self.back.totals.get(self.region.first(blob)) for blob in self.op.input}
        found = {blob: dy for blob, dy in totals.items() if isinstance(dy, str)}
        self.ops = pruned(self.back.ops, found.values())
        finisher = Finisher(self.session, self.region)
        finisher.finish(self.ops)
        self.rewriter = Rewriter(finisher)
        self._frames, self._copies = finisher.visited, finisher.keeper.copies
        return found

    def check_kept(self) -> None:
        """Refuse an operator that keeps too little."""
        self.rewriter.rewrite(self.region)
        if self.rewriter.notes:
            raise NetDefError(
                f"{label(self.op)} does not keep all that its gradient reads. Put what "
                "rewrite_forward(op) returns in its place, and differentiate that. It differs in "
                f"this: {' '.join(self.rewriter.notes)}"
            )

    def check_outside(self) -> None:
        """Refuse an operator for whose gradient something around it would have to change."""
        for frame in self._frames:
            if frame.parent is self.region and (frame.do is None or frame.own_scope):
                raise NetDefError(
                    f"{label(self.op)} needs a single Do as its '{_argument(self.node, frame)}', "
                    "with a scope that nothing else uses, so that its gradient finds what it "
                    "leaves behind. Differentiate the whole net with add_gradient_operators, "
                    "which makes one."
                )
        for value in self._copies:
            if value.region is self.region:
                raise NetDefError(
                    f"{label(self.op)} overwrites '{value.blob}', whose value before it the "
                    "gradient reads. Copy it to another blob before the operator, and let the "
                    "operator read that one."
                )


def _argument(node: Control, frame: Frame) -> str:
    return next(name for name, each in node.frames.items() if each is frame)


def _scopes(op: OperatorDef) -> dict[str, None]:
    """Return the scopes of an operator's own Dos."""
    if op.type == "Do":
        return {scope_of(op): None}
    dos = [do for _, net in subnets(op) for do in net.op if is_forward_do(do)]
    return {scope_of(do): None for do in dos}


def _check_given(op: OperatorDef, g_output: Sequence[str | None]) -> None:
    """Raise ArgumentError if the gradients do not match the operator's outputs."""
    if len(g_output) != len(op.output):
        raise ArgumentError(
            f"{label(op)} has {len(op.output)} outputs, but was given {len(g_output)} gradients. "
            "Give one for each, None where there is none."
        )
    if all(dy is None for dy in g_output):
        raise ArgumentError(
            f"{label(op)} was given no gradient of any of its outputs, {_listed(op.output)}."
        )


def _check_form(op: OperatorDef) -> None:
    """Raise NetDefError if an operator is malformed, or has no gradient by itself."""
    parse(NetDef(op=[op]))
    if op.type != "While":
        return
    body = Arguments(op).net("loop_net")
    if len(body.op) != 1 or not is_forward_do(body.op[0]):
        types = [each.type for each in body.op]
        raise NetDefError(
            f"{label(op)} needs a single Do as its body, which leaves its blobs to the gradient; "
            f"'loop_net' has {_listed(types)}. Put these into the net of a Do, or differentiate "
            "the whole net with add_gradient_operators, which does so."
        )
    if Arguments(body.op[0]).bool("reuse_workspace", False):
        raise NetDefError(
            f"{label(op)} has a body that uses one workspace again and again ('reuse_workspace'), "
            "but the gradient needs that of each trip. Differentiate the whole net with "
            "add_gradient_operators, which makes one for each."
        )


def _check_loop(op: OperatorDef, work: _Work) -> None:
    """Raise ArgumentError if no gradient goes through the body of a loop."""
    if op.type == "While" and not any(each.type == "While" for each in work.ops):
        raise ArgumentError(
            f"{label(op)} has no gradient net for its body: of the blobs whose gradient is given "
            "it writes none that depends on floats."
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"
