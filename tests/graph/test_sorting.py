"""Order of nodes, cycles and names that nothing defines."""

from __future__ import annotations

import time

import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.errors import GraphError
from whileback.graph.normalize import normalize
from whileback.graph.sorting import sort


def test_sorted_nodes_stay_as_they_are() -> None:
    model = parse("(float x) => (float y) { a = Exp(x) b = Neg(x) c = Abs(b) y = Add(a, c) }")
    assert [n.outputs[0].name for n in normalize(model).graph] == ["a", "b", "c", "y"]


def test_unsorted_nodes_are_moved_as_little_as_can_be() -> None:
    model = parse("(float x) => (float y) { y = Add(a, c) c = Abs(b) a = Exp(x) b = Neg(x) }")
    assert [n.outputs[0].name for n in normalize(model).graph] == ["a", "b", "c", "y"]


def test_body_comes_after_what_it_captures() -> None:
    model = parse("""(float x, bool c) => (float y) {
        y = If (c) <then_branch = t () => (float p) { p = Neg(q) q = Abs(a) },
                    else_branch = e () => (float r) { r = Neg(x) }>
        a = Exp(x) }""")
    graph = normalize(model).graph
    assert [node.op_type for node in graph] == ["Exp", "If"]
    then = graph[1].attributes["then_branch"].as_graph()
    assert [node.op_type for node in then] == ["Abs", "Neg"]


@pytest.mark.parametrize(
    "nodes, message",
    [
        (
            "y = Mul(y, x)",
            "Graph 'model' has a cycle: Node 'y' (Mul) reads its own output 'y'. Only a Loop or "
            "Scan can repeat; break the cycle.",
        ),
        (
            "a = Mul(b, x) b = Exp(a) y = Neg(x)",
            "Graph 'model' has a cycle: the tensors 'a' -> 'b' -> 'a' need each other. Only a "
            "Loop or Scan can repeat; break the cycle.",
        ),
        (
            "y = If(c) <then_branch = t () => (float p) { p = Neg(y) }, "
            "else_branch = e () => (float q) { q = Neg(x) }>",
            "Graph 'model' has a cycle: Node 'y' (If) reads its own output 'y'. Only a Loop or "
            "Scan can repeat; break the cycle.",
        ),
        (
            "y = If(c) <then_branch = t () => (float p) { p = Neg(q) q = Exp(p) }, "
            "else_branch = e () => (float q) { q = Neg(x) }>",
            "Graph 't' has a cycle: the tensors 'p' -> 'q' -> 'p' need each other. Only a "
            "Loop or Scan can repeat; break the cycle.",
        ),
        (
            "weight = Exp(x) y = Mul(weigth, weight)",
            "Node 'y' (Mul) reads 'weigth', which no node, input or initializer in reach defines; "
            "did you mean 'weight'?",
        ),
        (
            "y = If(c) <then_branch = t () => (float p) { p = Neg(inner) }, "
            "else_branch = e () => (float q) { inner = Neg(x) q = Exp(inner) }>",
            "Node 'p' (Neg) reads 'inner', which no node, input or initializer in reach defines; "
            "did you mean 'inner'?",
        ),
        (
            "z = Neg(x)",
            "Graph 'model' returns 'y', which no node, input or initializer in reach defines; "
            "there are 3: 'x', 'c', 'z'",
        ),
    ],
)
def test_refusals(nodes: str, message: str) -> None:
    with pytest.raises(GraphError) as error:
        normalize(parse(f"(float x, bool c) => (float y) {{ {nodes} }}"))
    assert str(error.value) == message


def chain(length: int, closed: bool = False) -> ir.Model:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    nodes, value = [], x
    for index in range(length):
        node = ir.node("Tanh", [value], name=f"n{index}")
        node.outputs[0].name = f"v{index}"
        nodes.append(node)
        value = node.outputs[0]
    if closed:
        nodes[0].replace_input_with(0, value)
    graph = ir.Graph([x], [value], nodes=nodes[::-1], opset_imports={"": 21}, name="chain")
    return ir.Model(graph, ir_version=10)


def test_long_chains_need_no_recursion() -> None:
    model = normalize(chain(5_000))
    assert [node.name for node in model.graph][::4_999] == ["n0", "n4999"]


def test_long_cycle_is_refused_as_fast_as_a_chain_is_sorted() -> None:
    """Looking for the way back from each node would take hours."""
    model, open_chain = chain(50_000, closed=True), chain(50_000)
    started = time.thread_time()
    sort(open_chain.graph)
    sorted_at = time.thread_time()
    with pytest.raises(GraphError) as error:
        sort(model.graph)
    assert time.thread_time() - sorted_at < 20 * (sorted_at - started)
    assert str(error.value) == (
        "Graph 'chain' has a cycle: the tensors 'v49999' -> 'v0' -> 'v1' -> 'v2' -> 'v3' -> "
        "'v4' -> 'v5' -> 'v6' -> … (50000 in all) -> 'v49999' need each other. Only a Loop or "
        "Scan can repeat; break the cycle."
    )
