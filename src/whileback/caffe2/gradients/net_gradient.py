"""The gradient of a net: its forward operators, and after them those of its gradient."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from whileback.caffe2 import operators as _operators  # noqa: F401
from whileback.caffe2.gradients import branches as _branches  # noqa: F401
from whileback.caffe2.gradients import loops as _loops  # noqa: F401
from whileback.caffe2.gradients.activity import mark
from whileback.caffe2.gradients.backward import Backward, Gradient, Session
from whileback.caffe2.gradients.bindings import all_names, mentions
from whileback.caffe2.gradients.emission import pruned
from whileback.caffe2.gradients.finishing import Finisher
from whileback.caffe2.gradients.naming import final_names, rename, required_names
from whileback.caffe2.gradients.nesting import limited
from whileback.caffe2.gradients.parsing import Parser
from whileback.caffe2.gradients.regions import Region, Value
from whileback.caffe2.gradients.rewriting import Rewriter, complete
from whileback.caffe2.gradients.types import may_be_float
from whileback.caffe2.operators.registry import Slices
from whileback.caffe2.reading.nets import parse
from whileback.errors import ArgumentError, nearest
from whileback.formats.caffe2.caffe2_pb2 import NetDef, TensorProto

__all__ = ["GradientMap", "add_gradient_operators"]

Seeds = Sequence[str] | Mapping[str, str]


class GradientMap(dict[str, Gradient]):
    """The blob that holds each blob's gradient, or the two of a sparse one.

    A name stands for the first version of a blob: what it held before the net ran, or what was
    written to it first. The gradient of what the k-th write left in it is under `name@k`.
    """

    rewritten: tuple[str, ...] = ()
    """What was changed in the forward operators, and why, a sentence each."""

    assumed: tuple[str, ...] = ()
    """What was taken for granted, since the net does not tell, a sentence each."""


@limited
def add_gradient_operators(
    net: NetDef, ys: Seeds, wrt: Sequence[str] | None = None, *, dense: bool = False
) -> tuple[NetDef, GradientMap]:
    """Return a net that also computes gradients, and the names of these.

    The forward operators compute what they did; where the way back needs it, they also keep
    copies, and branches and bodies are put into Dos. A net that lists its outputs then lists the
    gradients of `wrt`, too, by default those of its external inputs.

    Args:
        net: the net, which is not changed.
        ys: the blobs to differentiate, each with a gradient of ones; or for each the blob that
            holds its gradient. A name stands for what the blob holds in the end, `name@k` for what
            its k-th write left.
        wrt: the blobs whose gradients are wanted, in their first version or, as `name@k`, a later
            one. They are zeros where `ys` do not depend on them. By default all that there are.
        dense: make sparse gradients dense.

    Raises:
        ArgumentError: an unknown blob, or one without a gradient.
        NetDefError: the net is malformed.
        NoGradientError: operators between `wrt` and `ys` have no gradient; all are listed.
        UnsupportedError: the net reads a scope that the gradient needs, or is nested too deeply.

    >>> from whileback.caffe2 import OperatorDef
    >>> relu = OperatorDef(type="Relu", input=["x"], output=["y"])
    >>> result, gradients = add_gradient_operators(NetDef(op=[relu]), ["y"])
    >>> [op.type for op in result.op], gradients
    (['Relu', 'ConstantFill', 'ReluGradient'], {'x': 'x_grad', 'y': 'y_autogen_grad'})
    """
    ys = [ys] if isinstance(ys, str) else ys
    wrt = [wrt] if isinstance(wrt, str) else wrt
    if not ys:
        raise ArgumentError("There is nothing to differentiate: 'ys' names no blob.")
    named = [*ys, *(ys.values() if isinstance(ys, Mapping) else ()), *(wrt or ())]
    parse(net)
    parser = Parser(net, named)
    region = parser.main(net, named)
    given = {*net.external_input, *region.entered}
    wanted = None if wrt is None else {name: _find(region, name, given) for name in wrt}
    mark(region, set(net.external_input), None if wanted is None else set(wanted.values()))
    back = Backward(Session(parser.names, parser.net_names, wanted is None), region)
    _seed(back, ys)
    _check_types(wanted or {}, "wrt")
    back.run()
    back.session.check_complete()
    if wanted is None:
        wanted = _versions(region, {*mentions(net), *net.external_input}, given, back.totals)
    found = {name: _gradient(back, value, dense) for name, value in wanted.items()}
    return _assembled(net, back, found, {*all_names(net), *named})


def _seed(back: Backward, ys: Seeds) -> None:
    """Add the gradients of what is differentiated."""
    values = {y: _find(back.region, y) for y in ys}
    _check_types(values, "ys")
    for y, value in values.items():
        if isinstance(ys, Mapping):
            back.add(value, ys[y])
        else:
            base = f"{value.blob}_autogen_grad"
            dtype = {} if value.dtype is None else {"dtype": value.dtype}
            back.add(value, back.emit("ConstantFill", [value.name], base, value=1.0, **dtype))


def _find(region: Region, name: str, given: set[str] | None = None) -> Value:
    """Return the value that a name like 'y' or 'y@2' stands for.

    Args:
        region: the main net.
        name: the name.
        given: for the first version of a blob: the blobs that may hold something before the net
            runs; None for the last one.
    """
    if name in region.versions:
        return region.versions[name][-1 if given is None else int(name not in given)]
    blob, _, number = name.rpartition("@")
    versions = region.versions.get(blob, [])
    if number.isdecimal() and int(number) < len(versions):
        return versions[int(number)]
    raise ArgumentError(
        f"The net has no blob '{name}' in its main workspace; {nearest(name, region.versions)}"
    )


def _check_types(values: Mapping[str, Value], argument: str) -> None:
    """Raise ArgumentError if a value can have no gradient."""
    for name, value in values.items():
        if value.dtype is not None and not may_be_float(value.dtype):
            kind = TensorProto.DataType.Name(value.dtype)
            raise ArgumentError(
                f"Blob '{name}' in '{argument}' holds {kind}, which has no gradient; name blobs "
                "of floats."
            )


def _versions(
    region: Region, named: Container[str], given: set[str], totals: Mapping[Value, Gradient]
) -> dict[str, Value]:
    """Return the values that have a gradient, by the names that they are told apart by."""
    found = {}
    for blob, versions in region.versions.items():
        for value in versions:
            if value in totals and blob in named:
                first = value.version == int(blob not in given)
                found[blob if first else f"{blob}@{value.version}"] = value
    return found


def _gradient(back: Backward, value: Value, dense: bool) -> Gradient:
    """Return a value's gradient, zeros if there is none."""
    total = back.totals.get(value)
    if total is None:
        return back.zeros(value)
    return back.dense(value, total) if dense else total


def _assembled(
    net: NetDef, back: Backward, found: Mapping[str, Gradient], taken: set[str]
) -> tuple[NetDef, GradientMap]:
    """Return the whole net, and where it leaves the gradients, all with their final names."""
    ops = pruned(back.ops, [name for each in found.values() for name in _names(each)])
    finisher = Finisher(back.session, back.region)
    finisher.finish(ops)
    found = {blob: _mapped(each, finisher.name) for blob, each in found.items()}
    rewriter = Rewriter(finisher)
    result = NetDef()
    result.CopyFrom(net)
    del result.op[:]
    result.op.extend([*rewriter.rewrite(back.region), *ops])
    own = back.session.own
    required = required_names(ops, own)
    wishes = {name: base for name, base in _wishes(found, own).items() if name not in required}
    names = final_names(result.op, own, required | wishes, taken)
    rename(result.op, names)
    gradients = GradientMap(
        {blob: _mapped(each, lambda name: names.get(name, name)) for blob, each in found.items()}
    )
    gradients.rewritten = tuple(_quoting(note, names) for note in rewriter.notes)
    gradients.assumed = tuple(back.session.assumed)
    complete(result)
    if net.external_output:
        _list_outputs(result, gradients, net.external_input if back.session.everything else found)
    return result, gradients


def _list_outputs(result: NetDef, gradients: GradientMap, blobs: Iterable[str]) -> None:
    """Let a net that lists its outputs list the gradients of some blobs, too."""
    written = {name for op in result.op for name in op.output} - set(result.external_output)
    found = [name for blob in blobs if blob in gradients for name in _names(gradients[blob])]
    result.external_output.extend(name for name in dict.fromkeys(found) if name in written)


def _names(gradient: Gradient) -> list[str]:
    return [gradient] if isinstance(gradient, str) else [gradient.indices, gradient.values]


def _mapped(gradient: Gradient, name: Callable[[str], str]) -> Gradient:
    if isinstance(gradient, str):
        return name(gradient)
    return Slices(name(gradient.indices), name(gradient.values))


def _wishes(found: Mapping[str, Gradient], own: Mapping[str, str]) -> dict[str, str]:
    """Return what the gradients in the map are to be called, except for seeds."""
    wishes: dict[str, str] = {}
    for blob, gradient in found.items():
        if isinstance(gradient, str) and not own.get(gradient, "").endswith("_autogen_grad"):
            wishes.setdefault(gradient, f"{re.sub('@[0-9]+$', '', blob)}_grad")
    return wishes


def _quoting(note: str, names: Mapping[str, str]) -> str:
    """Return a sentence with the final names of the blobs that it quotes."""
    return re.sub("'([^']*)'", lambda found: f"'{names.get(found[1], found[1])}'", note)
