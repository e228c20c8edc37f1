"""`gradient` and `vjp`: from a model to the model that computes its gradients as well."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.gradient import rules  # noqa: F401
from whileback.gradient.activity import dependents, reaching
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.graph.names import Names
from whileback.graph.shapes import Shapes


def gradient(model: ir.Model, of: str | Sequence[str], wrt: Sequence[str]) -> ir.Model:
    of = [of] if isinstance(of, str) else list(of)
    graph = model.graph
    shapes = Shapes(graph.opset_imports)
    shapes.reserve(graph)
    shapes.infer_graph(graph)
    names = Names.of(graph)
    values = {v.name: v for v in (*graph.inputs, *graph.initializers.values(), *(o for n in graph for o in n.outputs))}
    targets = [values[n] for n in of]
    sources = [values[n] for n in wrt]
    active = dependents(graph, sources)
    active &= reaching(graph, targets, active) | set(sources)
    op = GradientBuilder(graph, names, shapes, active)
    cot: Cotangents = {t: op.constant(np.ones([d for d in t.shape], t.dtype.numpy())) for t in targets}
    backward(op, list(graph), cot)
    for s in sources:
        g = op.Identity(cot[s])
        g.name = names.fresh(f"{s.name}_grad")
        graph.outputs.append(g)
    return model
