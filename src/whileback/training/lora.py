"""Low-rank adapters: what is trained are two small matrices beside each weight, which stays.

Source: Hu et al., LoRA: low-rank adaptation of large language models, arXiv:2106.09685.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.gradient.rules.inputs import optional
from whileback.graph.builder import Builder
from whileback.graph.copying import clone
from whileback.graph.moving import taken_out
from whileback.graph.names import Names
from whileback.graph.scopes import is_standard, walk, walk_graphs
from whileback.graph.shapes import FLOATS, HALVES, Shapes
from whileback.graph.tensors import constant_tensor
from whileback.graph.versions import OPSET
from whileback.signatures import require_types
from whileback.training.exporting import export
from whileback.training.parameters import fitting, listed

__all__ = ["ADAPTERS", "has_adapters", "lora", "merge"]

# What adapters are called, as patterns.
ADAPTERS = ("*_lora_a", "*_lora_b")
# Marks a model with adapters, and their nodes; the last node of each has an `_Adapter`.
_KEY = "whileback.lora"


@dataclass(frozen=True)
class _Adapter:
    """What merges an adapter: W' = W + scale·B·A, or A·B if W multiplies from the right.

    Attributes:
        weight: its name, and `index`, where the node reads it.
        a, b: names of the two matrices.
        right: whether the axes of W are in, out.
        groups: of a convolution.
        scale: alpha/rank.
    """

    weight: str
    index: int
    a: str
    b: str
    right: bool
    groups: int
    scale: float

    def merged(self, W: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return the weight that does alone what all three do, in its own type."""
        A, B = A.astype(np.float64), B.astype(np.float64)
        if self.right:
            change = A @ B
        else:
            rows = B.reshape(self.groups, -1, len(A) // self.groups)
            change = rows @ A.reshape(self.groups, len(A) // self.groups, -1)
        added = W.astype(np.float64) + self.scale * change.reshape(W.shape)
        return np.asarray(added.astype(W.dtype))


@dataclass(frozen=True)
class _Site:
    """A node that multiplies by a weight, as it is or `turned`: how, and by which tensor."""

    node: ir.Node
    index: int
    weight: ir.Value
    turned: bool
    tensor: ir.TensorProtocol
    opset: int

    @property
    def right(self) -> bool:
        """Whether the axes of the weight are in, out."""
        if self.node.op_type == "Conv":
            return False
        return (self.index == 1) != (self.turned != bool(_flag(self.node, "transB")))

    @property
    def groups(self) -> int:
        return self.node.attributes.get_int("group", 1)

    def shapes(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the shapes of A and B."""
        first, second, *kernel = (int(size) for size in self.tensor.shape.numpy())
        if self.right:
            return [first, rank], [rank, second]
        return [rank * self.groups, second, *kernel], [first, rank, *(1 for _ in kernel)]


def lora(
    model: ir.Model,
    patterns: str | Sequence[str] = "*",
    rank: int = 8,
    alpha: float = 16.0,
    seed: int = 0,
) -> ir.Model:
    """Return a model with low-rank adapters, `<weight>_lora_a` and `<weight>_lora_b`, as tensors.

    What a `MatMul`, `Gemm` or `Conv` gives is added to by alpha/rank·B·A times what it reads, also
    in loops and branches. Since B is 0, nothing changes before training. `step` trains the adapters
    alone, unless `trainable=` says more; `merge` puts them into the weights.

    Args:
        model: stays as it is; its weights are shared.
        patterns: of the names of weights: initializers or constants of two axes, turned by a
            `Transpose` or not, or of more for `Conv`, that nothing else reads.
        rank: the number of rows of A, at least 1; for a `Conv`, in each group.
        alpha: divided by the rank, the factor of what is added.
        seed: of A, uniform between ± 1/√(number of elements that make one of its results).

    Raises: ArgumentError for a rank, an alpha or a seed that is none, for a pattern that fits no
        such weight, and for a model that has adapters.

    >>> import onnx_ir as ir
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     m (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1,0,0,1}> { y = MatMul(x, w) }''')
    >>> adapted = lora(model, rank=1)
    >>> list(adapted.graph.initializers)
    ['w', 'w_lora_a', 'w_lora_b', 'constant']
    >>> list(merge(adapted, {"w_lora_b": np.ones((1, 2), np.float32)}).graph.initializers)
    ['w']
    """
    require_types(lora, locals(), but=("model",))
    _check(rank, alpha, seed)
    if has_adapters(model):
        raise ArgumentError(
            f"Model '{model.graph.name}' has adapters already. Merge them, or start from the model "
            "without."
        )
    result = clone(model)
    result.metadata_props[_KEY] = json.dumps({"rank": rank, "alpha": alpha})
    op = Builder(result.graph, Names.of(result.graph), Shapes(result.opset_imports))
    op.role = "lora"
    sites = _sites(result.graph)
    names = [str(weight.name) for weight in sites]
    kind = "weights that only MatMul, Gemm and Conv read"
    wanted = set(fitting(listed(patterns), names, "patterns", kind))
    if not wanted:
        raise ArgumentError("patterns= is empty. Give patterns of the names of weights, or '*'.")
    generator = np.random.default_rng(seed)
    for weight, found in sites.items():
        if weight.name in wanted:
            _adapt(op, found, rank, alpha / rank, generator)
    return result


def _check(rank: int, alpha: float, seed: int) -> None:
    """Refuse settings that adapters cannot have."""
    if not isinstance(rank, int) or rank < 1:
        raise ArgumentError(f"rank={rank!r} is no number of rows. Give a whole one from 1.")
    if not isinstance(alpha, Real) or not 0 < alpha < np.inf:
        raise ArgumentError(f"alpha={alpha!r} is no factor. Give a finite number above 0.")
    if not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"seed={seed!r} is no seed. Give a whole number from 0.")


def has_adapters(model: ir.Model) -> bool:
    """Tell whether a model is one of `lora`.

    Raises: ArgumentError for what is no model.
    """
    if not isinstance(model, ir.Model):
        raise ArgumentError(
            f"model= is {type(model).__name__!r}, but adapters are those of an onnx_ir.Model. Read "
            "a file with whileback.load(path), a ModelProto with onnx_ir.from_proto(model)."
        )
    return _KEY in model.metadata_props


def _sites(graph: ir.Graph) -> dict[ir.Value, list[_Site]]:
    """Return the nodes that multiply by each weight that is used for nothing else."""
    found: dict[ir.Value, list[_Site]] = {}
    for node in walk(graph):
        for index in _POSITIONS.get(node.op_type, ()) if is_standard(node, *_EMIT) else ():
            weight, turned = _behind(optional(node, index))
            tensor = None if weight is None else _tensor(weight)
            if weight is not None and tensor is not None and _fits(node, tensor):
                opset = graph.opset_imports.get("", OPSET)
                site = _Site(node, index, weight, turned, tensor, opset)
                found.setdefault(weight, []).append(site)
    return {weight: sites for weight, sites in found.items() if _is_alone(weight, sites)}


def _behind(value: ir.Value | None) -> tuple[ir.Value | None, bool]:
    """Return the weight of two axes that a node reads, and whether a `Transpose` turns it."""
    node = None if value is None else value.producer()
    if node is None or not is_standard(node, "Transpose"):
        return value, False
    turned = list(node.attributes.get_ints("perm", (1, 0))) == [1, 0]
    return (node.inputs[0], True) if turned else (value, False)


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer, or of a `Constant` node."""
    node = value.producer()
    if node is not None:
        return constant_tensor(node, {})
    return value.const_value if value.is_initializer() else None


def _fits(node: ir.Node, tensor: ir.TensorProtocol) -> bool:
    count = len(tensor.shape.numpy())
    return tensor.dtype in FLOATS and (count > 2 if node.op_type == "Conv" else count == 2)


def _is_alone(weight: ir.Value, sites: Sequence[_Site]) -> bool:
    """Tell whether all that reads a weight multiplies by it in one way."""
    ways = {(site.right, site.groups) for site in sites}
    expected = {(site.node, site.index) for site in sites}
    read = {weight}
    for site in sites:
        value = site.node.inputs[site.index]
        turn = None if value is None or not site.turned else value.producer()
        if turn is not None:
            expected.add((turn, 0))
            read.add(turn.outputs[0])
    uses = {(use.node, use.idx) for value in read for use in value.uses()}
    seen = weight.is_graph_input() or any(value.is_graph_output() for value in read)
    return uses == expected and len(ways) == 1 and not seen


def _adapt(
    op: Builder, sites: Sequence[_Site], rank: int, scale: float, generator: np.random.Generator
) -> None:
    first = sites[0]
    dtype = ir.DataType.FLOAT if first.tensor.dtype in HALVES else first.tensor.dtype
    shape, other = first.shapes(rank)
    bound = (shape[0] if first.right else int(np.prod(shape[1:]))) ** -0.5
    A = _new(op, f"{first.weight.name}_lora_a", generator.uniform(-bound, bound, shape), dtype)
    B = _new(op, f"{first.weight.name}_lora_b", np.zeros(other), dtype)
    for site in sites:
        mark = _Adapter(
            str(site.weight.name),
            site.index,
            str(A.name),
            str(B.name),
            site.right,
            site.groups,
            scale,
        )
        _add(op, site, A, B, mark)


def _new(op: Builder, name: str, data: np.ndarray, dtype: ir.DataType) -> ir.Value:
    tensor = ir.tensor(data.astype(dtype.numpy()), name=op.names.fresh(name))
    value = ir.Value(name=tensor.name, type=ir.TensorType(dtype), const_value=tensor)
    value.shape = ir.Shape(data.shape)
    op.graph.register_initializer(value)
    return value


def _add(op: Builder, site: _Site, A: ir.Value, B: ir.Value, mark: _Adapter) -> None:
    """Emit the adapter of one node behind it; what it adds to has the node's name no longer."""
    node, inside = site.node, op.inside("lora")
    inside.origin = node
    X = node.inputs[1 - site.index]
    assert X is not None
    added = _EMIT[node.op_type](inside, site, inside.cast(X, A), A, B, mark.scale)
    frozen = node.outputs[0]
    total = inside.Add(frozen, inside.cast(added, site.tensor.dtype))
    total.type, total.shape = frozen.type, frozen.shape
    total.name, frozen.name = frozen.name, op.names.fresh(f"{frozen.name}_frozen")
    for each in inside.graph:
        each.metadata_props[_KEY] = ""
    sums = total.producer()
    assert sums is not None and node.graph is not None
    sums.metadata_props[_KEY] = json.dumps(asdict(mark))
    frozen.replace_all_uses_with(total, replace_graph_outputs=True)
    sums.replace_input_with(0, frozen)
    node.graph.insert_after(node, taken_out(inside.graph))


def _matmul(
    op: Builder, site: _Site, X: ir.Value, A: ir.Value, B: ir.Value, scale: float
) -> ir.Value:
    factor = op.constant(scale, A.dtype)
    if site.right != (site.index == 1):
        A, B = (op.Transpose(each, perm=[1, 0]) for each in (A, B))
    if site.index == 1:
        return op.MatMul(op.Mul(op.MatMul(X, A), factor), B)
    return op.MatMul(B, op.Mul(op.MatMul(A, X), factor))


def _gemm(
    op: Builder, site: _Site, X: ir.Value, A: ir.Value, B: ir.Value, scale: float
) -> ir.Value:
    """The factor of the product counts for both; so does which of them is transposed."""
    scale *= site.node.attributes.get_float("alpha", 1.0)
    # Before opset 11 there has to be something to add.
    none = op.constant(np.zeros(1), A.dtype) if site.opset < 11 else None
    ways = {"transB": int(not site.right)}
    inner = op.Gemm(X, A, none, alpha=scale, transA=_flag(site.node, "transA"), **ways)
    return op.Gemm(inner, B, none, **ways)


def _conv(
    op: Builder, site: _Site, X: ir.Value, A: ir.Value, B: ir.Value, scale: float
) -> ir.Value:
    (inner,) = op.emit("Conv", [X, A], dict(site.node.attributes))
    return op.Conv(op.Mul(inner, op.constant(scale, A.dtype)), B, group=site.groups)


def _flag(node: ir.Node, name: str) -> int:
    return node.attributes.get_int(name, 0)


_EMIT: dict[str, Callable[..., ir.Value]] = {"Conv": _conv, "Gemm": _gemm, "MatMul": _matmul}
# Where each may read a weight.
_POSITIONS = {"Conv": (1,), "Gemm": (1,), "MatMul": (0, 1)}


def merge(model: ir.Model, parameters: Mapping[str, Any] | None = None) -> ir.Model:
    """Return a model of `lora` without adapters: these are in the weights, all else is as before.

    Args:
        model: stays as it is.
        parameters: what was trained, as for `export`.

    Raises: ArgumentError for a model without adapters, and as `export`.
    """
    require_types(merge, locals(), but=("model",))
    if not has_adapters(model):
        raise ArgumentError(
            f"Model '{model.graph.name}' has no adapters to merge. Give a model of lora(), with "
            "parameters= for what was trained."
        )
    result = export(model, parameters or {})
    del result.metadata_props[_KEY]
    done: set[ir.Value] = set()
    marked = list(_marked(result.graph))
    for _, node in marked:
        if node.metadata_props[_KEY]:
            _merge(result.graph, node, done)
    for graph, node in reversed(marked):
        held = [value for value in node.inputs if value is not None and value.is_initializer()]
        graph.remove(node, safe=True)
        for value in held:
            if not value.uses() and str(value.name) in result.graph.initializers:
                del result.graph.initializers[str(value.name)]
    return result


def _marked(graph: ir.Graph) -> Iterator[tuple[ir.Graph, ir.Node]]:
    for each in walk_graphs(graph):
        for node in each:
            if _KEY in node.metadata_props:
                yield each, node


def _merge(main: ir.Graph, sums: ir.Node, done: set[ir.Value]) -> None:
    """Put an adapter into its weight, unless it is done, and its node in its old place."""
    mark = _Adapter(**json.loads(sums.metadata_props[_KEY]))
    frozen, total = sums.inputs[0], sums.outputs[0]
    assert frozen is not None
    node = frozen.producer()
    assert node is not None
    weight, _ = _behind(node.inputs[mark.index])
    assert weight is not None
    if weight not in done:
        done.add(weight)
        A, B = (main.initializers[name].const_value for name in (mark.a, mark.b))
        tensor = _tensor(weight)
        assert tensor is not None and A is not None and B is not None
        _hold(weight, mark.merged(tensor.numpy(), A.numpy(), B.numpy()))
    frozen.name, total.name = total.name, None
    total.replace_all_uses_with(frozen, replace_graph_outputs=True)


def _hold(weight: ir.Value, data: np.ndarray) -> None:
    tensor = ir.tensor(data, name=weight.name)
    node = weight.producer()
    if node is None:
        weight.const_value = tensor
        return
    node.attributes.clear()
    node.attributes.add(ir.AttrTensor("value", tensor))
