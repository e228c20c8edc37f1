"""What the normal form promises as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases
from tests.judge import HEADER, parse

from whileback.engines import compile
from whileback.errors import ArgumentError, EngineError
from whileback.graph.normalize import normalize
from whileback.graph.scopes import definitions, subgraphs, walk

NAMES = """(float[2] x, bool c, int64 n) => (float[2] y, float[2] t) <float[2] w = {1, 2}> {
  a = Mul (x, w)
  [twin] b = If (c) <then_branch = g () => (float[2] r) { p = Exp(a) r = Neg(p) },
                     else_branch = g () => (float[2] r) { p = Neg(a) r = Exp(p) }>
  [twin] y = Loop (n, , b) <body = g (int64 i, bool c, float[2] a) => (bool d, float[2] r) {
    d = Identity (c) p = Mul (a, w) r = Softplus (p) }>
  t = Add (a, y) }"""


def graphs(graph: ir.Graph) -> list[ir.Graph]:
    return [graph, *(inner for node in walk(graph) for inner in subgraphs(node))]


def test_names_are_unique_and_those_of_the_interface_stay() -> None:
    """Sibling branches share names, and inputs of the body hide outer values."""
    model = normalize(parse(NAMES))
    values = [value.name for each in graphs(model.graph) for value in definitions(each)]
    nodes = [node.name for node in walk(model.graph)]
    assert max(Counter(values).values()) == max(Counter(nodes).values()) == 1
    assert all(values) and all(nodes)
    assert [v.name for v in model.graph.inputs] == ["x", "c", "n"]
    assert [v.name for v in model.graph.outputs] == ["y", "t"]
    assert list(model.graph.initializers) == ["w"]
    assert " ".join(nodes) == ("Mul twin Exp Neg Neg_1 Exp_1 twin_1 Identity Mul_1 Softplus Add")
    a = np.array([0.5, -1]) * [1, 2]
    for c, b in ((True, -np.exp(a)), (False, np.exp(-a))):
        feeds = {"x": np.float32([0.5, -1]), "n": np.array(2), "c": np.array(c)}
        y = np.log1p(np.exp(np.log1p(np.exp(b * [1, 2])) * [1, 2]))
        np.testing.assert_allclose(compile(model, threads=1)(feeds)["t"], a + y, rtol=1e-6)


def test_every_value_has_its_type() -> None:
    for each in graphs(normalize(parse(NAMES)).graph):
        for value in definitions(each):
            assert value.type is not None and value.shape is not None, value


def test_normal_form_of_a_normal_form_is_the_same() -> None:
    once = normalize(parse(NAMES))
    assert ir.to_proto(normalize(once)) == ir.to_proto(once)


def test_what_describes_the_model_stays() -> None:
    model = parse(NAMES)
    model.producer_name, model.producer_version, model.domain = "made", "1.2", "by.us"
    model.model_version, model.doc_string = 7, "a model"
    model.metadata_props["author"] = "someone"
    model.graph.doc_string, model.graph.metadata_props["k"] = "a graph", "v"
    model.graph[0].doc_string, model.graph[0].metadata_props["n"] = "a node", "m"
    result = normalize(model)
    for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        assert getattr(result, name) == getattr(model, name)
    assert result.metadata_props == {"author": "someone"}
    assert result.metadata_props is not model.metadata_props
    assert (result.graph.doc_string, result.graph.metadata_props) == ("a graph", {"k": "v"})
    assert (result.graph[0].doc_string, result.graph[0].metadata_props) == ("a node", {"n": "m"})


def test_initializers_that_are_inputs_stay_inputs() -> None:
    text = '<ir_version: 3, opset_import: ["" : 9]> g '
    model = normalize(parse(text + "(float x, float w = {3}) => (float y) { y = Mul (x, w) }"))
    assert [v.name for v in model.graph.inputs] == ["x", "w"]
    run = compile(model, threads=1)
    assert run({"x": np.float32(2)})["y"] == 6
    assert run({"x": np.float32(2), "w": np.float32(5)})["y"] == 10


def test_imports_are_the_models_own() -> None:
    text = '<ir_version: 10, opset_import: ["ai.onnx" : 18, "my" : 3, "unused" : 2]> g '
    model = normalize(parse(text + "(float x) => (float y) { a = my.Op (x) y = Neg (a) }"))
    assert model.graph.opset_imports == {"": 21, "my": 3, "unused": 2}


SCRIPT = f"""
import hashlib, onnx_ir as ir
from whileback.graph.normalize import normalize
model = ir.from_onnx_text({HEADER.format(opset=21) + NAMES!r})
model = normalize(model, needs_expansion=lambda node: node.op_type == "Softplus")
print(hashlib.sha256(ir.to_proto(model).SerializeToString(deterministic=True)).hexdigest())
"""


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    found = set()
    for seed in ("0", "1", "4711"):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("case", collect_testcases(None)[::25], ids=lambda case: case.name)
def test_models_of_onnxs_own_tests(case: Any) -> None:
    """Forward values stay what ONNX Runtime computes from the model as it is."""
    proto: onnx.ModelProto = case.model
    before = proto.SerializeToString(deterministic=True)
    result = normalize(ir.from_proto(proto))
    assert proto.SerializeToString(deterministic=True) == before
    inputs = zip((value.name for value in proto.graph.input), case.data_sets[0][0], strict=False)
    feeds = {n: np.asarray(v) if isinstance(v, np.generic) else v for n, v in inputs}
    try:
        want = compile(proto, threads=1)(feeds)
    except (EngineError, ArgumentError):
        pytest.skip("ONNX Runtime does not run the model")
    got = compile(result, threads=1)(feeds)
    assert list(got) == list(want)
    for name, value in want.items():
        np.testing.assert_equal(got[name], value)


def test_casts_to_known_types_depend_on_no_value():
    model = parse("(double x, float y) => (double z) { a = CastLike(y, x) z = Add(a, x) }")
    (cast, _) = normalize(model).graph
    assert (cast.op_type, cast.attributes["to"].as_int(), len(cast.inputs)) == ("Cast", 11, 1)
