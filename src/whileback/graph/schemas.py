"""Holding nodes against ONNX's own definitions of their operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import onnx
import onnx_ir as ir

from whileback.errors import nearest
from whileback.graph.scopes import STANDARD_DOMAINS

__all__ = ["accepts", "operator_names", "problem", "type_letters"]


@dataclass(frozen=True)
class _Slot:
    """An input or output: the types it takes, and the letter that stands for its type."""

    name: str
    optional: bool
    types: frozenset[str]
    letter: str | None


@dataclass(frozen=True)
class _Form:
    """The form of an operator in one version; the last slot can be repeated if `variadic`."""

    attributes: dict[str, ir.AttributeType]
    required: frozenset[str]
    inputs: tuple[_Slot, ...]
    outputs: tuple[_Slot, ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int


def problem(node: ir.Node, opset: int, types: bool = True, early: bool = False) -> str | None:
    """Return what is wrong with a node of the default domain in an opset, or None.

    Attributes, the numbers of inputs and outputs, and their `types` as far as they are known are
    looked at; shapes are not. With `early`, an operator that ONNX Runtime had before ONNX did may
    stand in an opset that is older than it.
    """
    if node.op_type in _OF_THE_RUNTIME:
        return None
    form = _form(node.op_type, max(opset, _EARLY.get(node.op_type, 0)) if early else opset)
    if form is None:
        hint = nearest(node.op_type, operator_names(opset))
        return f"names no operator of opset {opset} ({hint})"
    return (
        _attributes(node, form)
        or _counts(node, form)
        or _bodies(node, opset)
        or _ways(node, opset)
        or (_types(node, form) if types else None)
    )


def type_letters(node: ir.Node) -> tuple[list[str | None], list[str | None]]:
    """Return the letters that stand for the types of a node's inputs and outputs.

    Values of one letter have one type. Nothing is known of operators of other domains.
    """
    if node.domain in STANDARD_DOMAINS and onnx.defs.has(node.op_type):
        form = _form(node.op_type, onnx.defs.get_schema(node.op_type).since_version)
        if form is not None:
            inputs = [slot.letter for _, slot in _slots(node.inputs, form.inputs)]
            return inputs, [slot.letter for _, slot in _slots(node.outputs, form.outputs)]
    return [None] * len(node.inputs), [None] * len(node.outputs)


@cache
def accepts(op_type: str, opset: int, dtype: ir.DataType) -> bool:
    """Tell whether an operator may have tensors of a type as its first input."""
    form = _form(op_type, opset)
    return form is not None and f"tensor({dtype.name.lower()})" in form.inputs[0].types


@cache
def operator_names(opset: int) -> tuple[str, ...]:
    """Return the operators of the default domain in an opset."""
    schemas = onnx.defs.get_all_schemas_with_history()
    names = {s.name for s in schemas if s.domain == "" and s.since_version <= opset}
    return tuple(sorted(name for name in names if _form(name, opset) is not None))


# Operators that ONNX Runtime adds to the default domain, and the opset that has one as it had it.
_OF_THE_RUNTIME = frozenset({"SimplifiedLayerNormalization"})
_EARLY = {"LayerNormalization": 17}
# Versions that ONNX deprecates since newer ones differ, and whose operator lives on.
_WITHDRAWN = frozenset({("GroupNormalization", 18)})


@cache
def _form(op_type: str, opset: int) -> _Form | None:
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated and (op_type, schema.since_version) not in _WITHDRAWN:
        return None
    return _Form(
        attributes={name: _kind(each) for name, each in schema.attributes.items()},
        required=frozenset(n for n, a in schema.attributes.items() if a.required),
        inputs=tuple(_slot(each) for each in schema.inputs),
        outputs=tuple(_slot(each) for each in schema.outputs),
        min_inputs=schema.min_input,
        max_inputs=schema.max_input,
        min_outputs=schema.min_output,
        max_outputs=schema.max_output,
    )


def _kind(attribute: onnx.defs.OpSchema.Attribute) -> ir.AttributeType:
    return ir.AttributeType(int(attribute.type))  # type: ignore[call-overload]


def _slot(parameter: onnx.defs.OpSchema.FormalParameter) -> _Slot:
    option = onnx.defs.OpSchema.FormalParameterOption
    mixed = parameter.option == option.Variadic and not parameter.is_homogeneous
    return _Slot(
        name=parameter.name,
        optional=parameter.option != option.Single,
        types=frozenset(parameter.types),
        letter=None if mixed else parameter.type_str,
    )


def _attributes(node: ir.Node, form: _Form) -> str | None:
    for name, attribute in node.attributes.items():
        kind = form.attributes.get(name)
        if kind is None:
            return f"has an attribute '{name}', which is none of the operator's"
        if attribute.type != kind:
            return f"has an attribute '{name}' of type {attribute.type.name}, not {kind.name}"
    for name in sorted(form.required):
        if name not in node.attributes:
            return f"has no attribute '{name}', which the operator needs"
    return None


def _counts(node: ir.Node, form: _Form) -> str | None:
    count = len(node.inputs)
    # What is left out at the end counts up to there: `Loop(M, "")` carries nothing.
    while count > form.min_inputs and node.inputs[count - 1] is None:
        count -= 1
    if not form.min_inputs <= count <= form.max_inputs:
        return (
            f"has {count} inputs, and the operator takes {_range(form.min_inputs, form.max_inputs)}"
        )
    for value, slot in _slots(node.inputs, form.inputs):
        if value is None and not slot.optional:
            return f"leaves out input '{slot.name}', which the operator needs"
    if not form.min_outputs <= len(node.outputs) <= form.max_outputs:
        made = _range(form.min_outputs, form.max_outputs)
        return f"has {len(node.outputs)} outputs, and the operator makes {made}"
    return None


def _bodies(node: ir.Node, opset: int) -> str | None:
    """Hold the inputs and outputs of bodies against those of their node."""
    bodies = [a for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    if not bodies or (node.op_type == "Scan" and opset < 9):  # which is not read
        return None
    of_trips = 2 if node.op_type == "Loop" else 0  # the number of the trip, and the condition
    given = () if node.op_type == "If" else node.inputs[of_trips:]
    if None in given:
        return "leaves out an input, and all that its body takes must be there"
    takes, returns = of_trips + len(given), of_trips // 2 + len(node.outputs)
    for body in bodies:
        graph = body.as_graph()
        for said, found, right in (
            ("inputs", len(graph.inputs), takes),
            ("outputs", len(graph.outputs), returns),
        ):
            if found != right:
                return f"has a graph '{body.name}' of {found} {said}, and {right} are needed"
    return None


def _ways(node: ir.Node, opset: int) -> str | None:
    """Hold what a `Scan` says of its stacks against how many it has."""
    if node.op_type != "Scan" or opset < 9:  # whose first input tells lengths
        return None
    reads = node.attributes.get_int("num_scan_inputs", 0)
    carried = len(node.inputs) - reads
    if not 0 <= reads <= len(node.inputs) or carried > len(node.outputs):
        return f"has {len(node.inputs)} inputs, of which {reads} cannot be stacks"
    for side, count in (("input", reads), ("output", len(node.outputs) - carried)):
        for what in ("axes", "directions"):
            given = node.attributes.get_ints(f"scan_{side}_{what}", [])
            if len(given) not in (0, count):
                return f"has {len(given)} numbers in 'scan_{side}_{what}', and {count} are needed"
    return None


def _range(least: int, most: int) -> str:
    if most > 2**30:
        return f"at least {least}"
    return str(least) if least == most else f"{least} to {most}"


def _types(node: ir.Node, form: _Form) -> str | None:
    found: dict[str, ir.Value] = {}
    for verb, values, slots in (
        ("reads", node.inputs, form.inputs),
        ("makes", node.outputs, form.outputs),
    ):
        for value, slot in _slots(values, slots):
            given = None if value is None else _type_name(value.type)
            if value is None or given is None:
                continue
            wrong = _mismatch(given, slot, found)
            if wrong is not None:
                return f"{verb} '{value.name}', which is {given}, as '{slot.name}'{wrong}"
            if slot.letter is not None:
                found[slot.letter] = value
    return None


def _mismatch(given: str, slot: _Slot, found: dict[str, ir.Value]) -> str | None:
    """Return how a type breaks the operator's definition; values of one letter have one type."""
    if given not in slot.types:
        shown = sorted(slot.types)
        return f", which takes {', '.join(shown[:6])}{', …' if len(shown) > 6 else ''}"
    other = found.get(slot.letter or "")
    if other is not None and _type_name(other.type) != given:
        return f" beside '{other.name}', which is {_type_name(other.type)}: they must have one type"
    return None


def _slots(
    values: Sequence[ir.Value | None], slots: tuple[_Slot, ...]
) -> Iterator[tuple[ir.Value | None, _Slot]]:
    for index, value in enumerate(values):
        yield value, slots[min(index, len(slots) - 1)]


def _type_name(type_: ir.TypeProtocol | None) -> str | None:
    """Return the name that ONNX's definitions give to a type, such as `tensor(float)`."""
    if type_ is None or type_.dtype == ir.DataType.UNDEFINED:
        return None
    if type(type_) is ir.TensorType:
        return _TENSORS[type_.dtype]
    for kind, container in (("seq", ir.SequenceType), ("optional", ir.OptionalType)):
        if isinstance(type_, container):
            return f"{kind}({_type_name(type_.elem_type)})"
    return None


_TENSORS: dict[ir.DataType, str] = {dtype: f"tensor({dtype.name.lower()})" for dtype in ir.DataType}
