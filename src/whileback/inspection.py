"""The public calls that look at models: what they are, what changed, what takes the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whileback.api import AnyModel, Path, opened
from whileback.checking.inputs import naming_made_up, random_inputs
from whileback.comparing.compare import compare
from whileback.comparing.difference import Difference
from whileback.engines.arguments import Port, bind
from whileback.errors import ArgumentError
from whileback.page.merging import merge
from whileback.page.reading import read
from whileback.page.writing import write
from whileback.profiling.measure import measure
from whileback.profiling.profile import Profile
from whileback.showing.show import show_model
from whileback.signatures import require_types

__all__ = ["diff", "profile", "show", "to_html"]


def diff(a: AnyModel, b: AnyModel, *, base_dir: Path | None = None) -> Difference:
    """Return what changed from one model to another: inputs, outputs, weights, nodes, bodies.

    Nodes are matched by what they compute of what, so that other names inside of the models, and
    another order of nodes, change nothing. Weights are read, also external data, and compared by
    the norm of their difference.

    Args:
        a, b: models in any of the three forms.
        base_dir: the folder of external data, if both are a ModelProto.

    Raises:
        FormatError, GraphError, UnsupportedError: a model cannot be read or is not valid.

    >>> import onnx_ir as ir, whileback
    >>> text = '''<ir_version: 10, opset_import: ["" : 21]>
    ...     f (float[2] x) => (float[2] y) { h = Neg(x) y = Relu(h) }'''
    >>> a, b = (ir.from_onnx_text(t) for t in (text, text.replace("Relu", "Elu<alpha = 0.5>")))
    >>> print(whileback.diff(a, b))
    nodes: 1 changed, 1 the same
      ~ y = Relu(h)
        Relu → Elu
        alpha: not set → 0.5
    >>> whileback.diff(a, a).is_empty
    True
    """
    return compare(opened(a, base_dir), opened(b, base_dir)).difference


def profile(
    model: AnyModel,
    inputs: Mapping[str, Any] | None = None,
    *,
    runs: int = 5,
    optimization: str = "all",
    threads: int = 1,
    seed: int = 0,
    base_dir: Path | None = None,
) -> Profile:
    """Return what each node of a model takes on ONNX Runtime: time, outputs, memory in use.

    Times are those of ONNX Runtime's own profiler, in whole microseconds, of the fastest run;
    noting them takes time as well, so that many small nodes seem slower than they are. A node of
    a body counts for all trips. Of a gradient, each node tells which node it comes from.

    Args:
        model: in any of the three forms.
        inputs: values for some of the inputs; the others get random ones, as for `check`.
        runs: how many runs are measured, after one that is not.
        optimization, threads: as for `compile`; with "disabled", no nodes are put together.
        seed: makes the random values.
        base_dir: the folder of a ModelProto's external data.

    Raises:
        ArgumentError: an input or option is wrong, or no random value can be made up for an input.
        EngineError: ONNX Runtime is missing, refuses the model, fails, or runs more nodes than
            its profiler notes: a million.

    >>> import onnx_ir as ir, whileback
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     f (float[2] x) => (float[2] y) { h = Neg(x) y = Exp(h) }''')
    >>> [(cost.name, cost.count, cost.output) for cost in whileback.profile(model).costs]
    [('h', 1, 8), ('y', 1, 8)]
    """
    require_types(profile, locals(), but=("model",))
    if seed < 0:
        raise ArgumentError(f"seed= is {seed}; it must be 0 or more.")
    own = opened(model, base_dir)
    signature = {str(value.name): Port.of(value) for value in own.graph.inputs}
    given = bind(str(own.graph.name), signature, signature, inputs or {}, {})
    arguments = random_inputs(own, given, np.random.default_rng(seed))
    with naming_made_up(given, arguments):
        return measure(own, arguments, runs=runs, optimization=optimization, threads=threads)


def show(
    model: AnyModel,
    *,
    everything: bool = False,
    node: str | None = None,
    depth: int | None = None,
    base_dir: Path | None = None,
) -> str:
    """Return a model as text: whole if it fits on a screen, or else what there is to know first.

    That is: inputs, outputs, sizes, operators, which of them belong to gradients, loops and
    branches, and what the trips of loops keep for gradients. The whole text has one node a line,
    bodies indented; every value has its type, and a node that belongs to a gradient names the node
    that it comes from.

    Args:
        model: in any of the three forms.
        everything: whether to show the whole text, however long it is.
        node: the name of a node or a value, of which alone all is shown, and what reads it.
        depth: how many levels of bodies are shown, 0: the main graph alone; None: all.
        base_dir: the folder of a ModelProto's external data.

    Raises:
        ArgumentError: the model has no such node, or arguments exclude each other.
        FormatError, GraphError, UnsupportedError: the model cannot be read or is not valid.

    >>> import onnx_ir as ir
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     square (float x) => (float y) { y = Mul(x, x) }''')
    >>> print(show(model))
    square: ai.onnx@21, IR 10
    inputs
      x : FLOAT[]
    outputs
      y : FLOAT[]
    nodes
      y : FLOAT[] = Mul(x, x)
    """
    require_types(show, locals(), but=("model",))
    return show_model(opened(model, base_dir), everything=everything, node=node, depth=depth)


def to_html(
    model: AnyModel, *, before: AnyModel | None = None, base_dir: Path | None = None
) -> str:
    """Return a page that shows a model in a browser: one file, which loads and sends nothing.

    The graph is drawn, bodies and functions to be unfolded; nodes of a gradient stand beside the
    model's own, each linked with the one that it comes from, and loops tell what their trips keep
    for the gradient. Types, attributes and small constants are in the page, other weights are not.

    Args:
        model: in any of the three forms.
        before: another one, with which it is compared as by `diff`: nodes that were added, changed
            or removed since are marked, and all changes listed.
        base_dir: the folder of a ModelProto's external data, which is read only to compare it.

    Raises:
        FormatError, GraphError, UnsupportedError: the model cannot be read or is not valid.

    >>> import onnx_ir as ir, whileback
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     f (float[2] x) => (float[2] y) { y = Neg(x) }''')
    >>> page = whileback.to_html(whileback.gradient(model, of="y", wrt="x", reduce="sum"))
    >>> page[:15], "y_grad" in page
    ('<!doctype html>', False)
    """
    own = opened(model, base_dir)
    if before is None:
        return write(read(own).document())
    other = opened(before, base_dir)
    found = compare(other, own)
    reading = read(own)
    merge(read(other), reading, found.nodes, found.values, found.details)
    told = [(c.kind, c.text) for c in found.difference.changes if c.part != "node"]
    return write(reading.document(told))
