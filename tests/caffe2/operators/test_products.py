"""Products of matrices and distances of rows: their gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal, run, specs

from whileback.caffe2.reading import TensorSpec, read
from whileback.formats.caffe2.caffe2_pb2 import NetDef

Shape = tuple[int, ...]


def feeds(*shapes: Shape) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {f"x{k}": rng.uniform(-1, 1, shape).astype(np.float32) for k, shape in enumerate(shapes)}


@pytest.mark.parametrize(
    ("op_type", "shapes", "args"),
    [
        ("FC", [(2, 3), (4, 3), (4,)], {}),
        ("FC", [(2, 3, 2), (4, 2), (4,)], {"axis": -1}),
        ("FC", [(2, 4), (3, 2, 4), (6,)], {"axis_w": 2}),
        ("FCTransposed", [(2, 3, 2), (2, 4), (4,)], {"axis": 2}),
        ("MatMul", [(2, 3), (4, 3)], {"trans_b": 1}),
        ("MatMul", [(2, 2, 3), (3, 4)], {"axis_a": 2}),
        ("MatMul", [(2, 2, 3), (2, 2, 2)], {"axis_a": -1, "axis_b": 2, "trans_a": 1}),
        ("MatMul", [(3, 2), (2, 2, 3)], {"axis_b": 2, "trans_a": 1, "trans_b": 1}),
        ("BatchMatMul", [(2, 3, 2), (2, 2, 2)], {}),
        ("BatchMatMul", [(2, 2, 3), (2, 4, 2)], {"trans_a": 1, "trans_b": 1}),
        ("BatchMatMul", [(2, 1, 3, 2), (3, 2, 4)], {"broadcast": 1}),
        ("BatchMatMul", [(2, 3), (2, 4, 2)], {"broadcast": 1, "trans_a": 1, "trans_b": 1}),
        ("LC", [(2, 2, 3, 3), (2, 2, 2, 2, 2, 2), (2, 2, 2)], {"kernel": 2}),
        ("LC", [(1, 3, 3, 2), (2, 2, 2, 2, 2, 2)], {"kernel": 2, "order": "NHWC"}),
        ("DotProduct", [(2, 3), (2, 3)], {}),
        ("CosineSimilarity", [(2, 3), (2, 3)], {}),
        ("L1Distance", [(2, 3), (2, 3)], {}),
        ("SquaredL2Distance", [(3,), (3,)], {}),
        ("DotProductWithPadding", [(2, 4), (2, 2)], {"pad_value": 0.5}),
        ("DotProductWithPadding", [(2, 2), (2, 4)], {"replicate": 1}),
    ],
)
def test_gradients(op_type: str, shapes: list[Shape], args: Any) -> None:
    given = feeds(*shapes)
    check_maker(operator(op_type, [*given], ["y"], **args), given, [*given])


@pytest.mark.parametrize(
    ("op_type", "shapes", "args", "nodes"),
    [
        ("FC", [(2, 3), (4, 3), (4,)], {}, ["Gemm"]),
        ("MatMul", [(2, 3), (3, 4)], {}, ["MatMul"]),
        ("MatMul", [(2, 3), (4, 3)], {"trans_b": 1}, ["Gemm"]),
        ("BatchMatMul", [(2, 2, 3), (2, 3, 4)], {}, ["MatMul"]),
    ],
)
def test_what_is_one_node(op_type: str, shapes: list[Shape], args: Any, nodes: list[str]) -> None:
    given = feeds(*shapes)
    net = NetDef(name="net", op=[operator(op_type, [*given], ["y"], **args)])
    assert [node.op_type for node in read(net, specs(given)).model.graph] == nodes


def test_a_vector_is_a_column() -> None:
    given = feeds((4, 3), (4,))
    (y,) = run(operator("BatchMatMul", [*given], ["y"], trans_a=1), given)
    np.testing.assert_allclose(y, given["x0"].T @ given["x1"], rtol=1e-6)


def test_where_ranks_are_not_known() -> None:
    given = feeds((2, 3, 2), (4, 6), (4,))
    unknown = {name: TensorSpec(ir.DataType.FLOAT, None) for name in given}
    fc = operator("FC", [*given], ["y"])
    np.testing.assert_allclose(run(fc, given, unknown)[0], run(fc, given)[0], rtol=1e-6)
    assert refusal(operator("FC", [*given], ["y"], axis=-1), unknown) == (
        "FC (writes 'y') needs the rank of blob 'x0', which is not known. "
        "Give its shape with --input x0=…"
    )
    op = operator("BatchMatMul", ["x0", "x1"], ["y"], trans_a=1)
    assert refusal(op, unknown) == (
        "BatchMatMul (writes 'y') needs the rank of blob 'x0', which is not known. "
        "Give its shape with --input x0=…"
    )


def test_refused() -> None:
    given = feeds((2, 3), (4, 3), (4,))
    assert refusal(operator("FC", [*given], ["y"], axis=2), given) == (
        "FC (writes 'y') has axis 2 for a tensor of rank 2."
    )
    rows = {name: TensorSpec(ir.DataType.FLOAT, ("N", "D")) for name in ("x0", "x1")}
    assert refusal(operator("DotProductWithPadding", ["x0", "x1"], ["y"]), rows) == (
        "DotProductWithPadding (writes 'y') needs two matrices with rows of known lengths, "
        "['x0', 'x1']. Give their shapes with --input."
    )
    groups = operator("LC", ["x0", "x1"], ["y"], kernel=2, group=2)
    assert refusal(groups, feeds((2, 2, 3, 3), (2, 2, 2, 1, 2, 2))) == (
        "LC (writes 'y') cannot be read: it has 2 groups. Split it into an LC for each."
    )
