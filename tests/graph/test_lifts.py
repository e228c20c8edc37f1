"""Models of old opsets keep their values when they are lifted, at top level and in branches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from whileback.engines import compile
from whileback.errors import UnsupportedError
from whileback.graph.lifts import LIFTS, TYPED_LIFTS
from whileback.graph.normalize import normalize

HEADER = '<ir_version: 4, opset_import: ["" : {opset}]> model '

# Each line: an identifier, an opset, the inputs, the nodes that make y.
CASES = [
    ("Squeeze", 9, "float[1,3,1] x", "y = Squeeze <axes=[0]> (x)"),
    ("Squeeze of all", 9, "float[1,3,1] x", "y = Squeeze (x)"),
    ("Squeeze negative", 12, "float[1,3,1] x", "y = Squeeze <axes=[-1]> (x)"),
    ("Unsqueeze", 7, "float[3] x", "y = Unsqueeze <axes=[0, 2]> (x)"),
    ("ReduceSum", 9, "float[2,3,4] x", "y = ReduceSum <axes=[1]> (x)"),
    ("ReduceSum of all", 12, "float[2,3,4] x", "y = ReduceSum <keepdims=0> (x)"),
    ("ReduceMean", 11, "float[2,3,4] x", "y = ReduceMean <axes=[-1], keepdims=0> (x)"),
    ("ReduceMean 17", 17, "float[2,3,4] x", "y = ReduceMean <axes=[0,2]> (x)"),
    ("ReduceMax", 9, "float[2,3,4] x", "y = ReduceMax <axes=[0]> (x)"),
    ("ReduceMin", 13, "float[2,3,4] x", "y = ReduceMin <axes=[0]> (x)"),
    ("ReduceProd", 13, "float[2,3,4] x", "y = ReduceProd <axes=[2]> (x)"),
    ("ReduceL1", 13, "float[2,3,4] x", "y = ReduceL1 <axes=[2]> (x)"),
    ("ReduceL2", 13, "float[2,3,4] x", "y = ReduceL2 <axes=[2]> (x)"),
    ("ReduceLogSum", 13, "float[2,3,4] x", "a = Abs(x) y = ReduceLogSum <axes=[2]> (a)"),
    ("ReduceLogSumExp", 13, "float[2,3,4] x", "y = ReduceLogSumExp <axes=[2]> (x)"),
    ("ReduceSumSquare", 13, "float[2,3,4] x", "y = ReduceSumSquare <axes=[2]> (x)"),
    ("Clip", 9, "float[2,3] x", "y = Clip <min=-0.25, max=0.5> (x)"),
    ("Clip min", 7, "float[2,3] x", "y = Clip <min=-0.25> (x)"),
    ("Clip max", 10, "float[2,3] x", "y = Clip <max=0.5> (x)"),
    ("Clip none", 10, "float[2,3] x", "y = Clip (x)"),
    ("Clip of an inner value", 9, "float[2,3] x", "a = Exp(x) y = Clip <max=1.0> (a)"),
    ("Softmax", 11, "float[2,3,4] x", "y = Softmax (x)"),
    ("Softmax 7", 7, "float[2,3,4] x", "y = Softmax <axis=1> (x)"),
    ("Softmax last", 9, "float[2,3] x", "y = Softmax (x)"),
    ("Softmax axis 0", 9, "float[2,3,4] x", "y = Softmax <axis=0> (x)"),
    ("Softmax axis -2", 11, "float[2,3,4] x", "y = Softmax <axis=-2> (x)"),
    ("Softmax unknown rank", 11, "float[] x", "y = Softmax <axis=1> (x)"),
    ("Softmax of an inner value", 9, "float[2,3] x", "a = Exp(x) y = Softmax (a)"),
    ("LogSoftmax", 12, "float[2,3,4] x", "y = LogSoftmax (x)"),
    ("Hardmax", 12, "float[2,3,4] x", "y = Hardmax (x)"),
    ("Pad", 9, "float[2,3] x", "y = Pad <pads=[0,1,2,0]> (x)"),
    ("Pad value", 10, "float[2,3] x", "y = Pad <pads=[0,1,2,0], value=1.5> (x)"),
    ("Pad reflect", 7, "float[2,3] x", 'y = Pad <pads=[0,1,0,2], mode="reflect"> (x)'),
    ("Pad edge", 7, "float[2,3] x", 'y = Pad <pads=[0,1,0,2], mode="edge"> (x)'),
    ("Slice", 9, "float[4,5] x", "y = Slice <starts=[1,-3], ends=[3,100]> (x)"),
    ("Slice axes", 7, "float[4,5] x", "y = Slice <starts=[1], ends=[-1], axes=[1]> (x)"),
    ("TopK", 9, "float[2,5] x", "y, i = TopK <k=2> (x)"),
    ("TopK axis", 7, "float[5,2] x", "y, i = TopK <k=2, axis=0> (x)"),
    ("TopK 10", 10, "float[2,5] x", "k = Constant <value = int64[1] {2}> () y, i = TopK (x, k)"),
    ("Dropout", 9, "float[2,3] x", "y = Dropout <ratio=0.7> (x)"),
    ("Dropout 11", 11, "float[2,3] x", "y, mask = Dropout <ratio=0.7> (x)"),
    ("Split", 9, "float[6,2] x", "a, b = Split <split=[2,4]> (x) y = Concat <axis=0> (b, a)"),
    ("Split equal", 12, "float[6,2] x", "a, b, c = Split (x) y = Sub(a, c)"),
    ("Split axis", 17, "float[2,6] x", "a, b = Split <axis=1> (x) y = Sub(a, b)"),
    ("Gemm", 7, "float[2,3] x", "t = Transpose(x) c = ReduceSum <keepdims=0> (x)"
     " y = Gemm <alpha=0.5, transB=1> (x, x, c)"),
    ("Gemm 10", 10, "float[2,2] x, float[2] c", "y = Gemm <beta=0.5> (x, x, c)"),
    ("BatchNormalization", 7, "float[2,3,2,2] x, float[3] s",
     "v = Abs(s) y = BatchNormalization (x, s, s, s, v)"),
    ("BatchNormalization 9", 9, "float[2,3,2,2] x, float[3] s",
     "v = Abs(s) y = BatchNormalization <epsilon=0.1> (x, s, s, s, v)"),
    ("BatchNormalization 13", 13, "float[2,3,2,2] x, float[3] s",
     "v = Abs(s) y = BatchNormalization <epsilon=0.1> (x, s, s, s, v)"),
    ("BatchNormalization of elements", 8, "float[2,3,2] x, float[3,2] s",
     "v = Abs(s) y = BatchNormalization <spatial=0> (x, s, s, s, v)"),
    ("Upsample 7", 7, "float[1,1,2,2] x", "y = Upsample <scales=[1.0,1.0,2.0,3.0]> (x)"),
    ("Upsample linear", 8, "float[1,1,2,3] x",
     'y = Upsample <mode="linear", scales=[1.0,1.0,2.0,3.0]> (x)'),
    ("Upsample 9", 9, "float[1,1,2,2] x",
     "s = Constant <value = float[4] {1,1,2.5,2}> () y = Upsample (x, s)"),
    ("Upsample 9 linear", 9, "float[1,1,2,2] x",
     's = Constant <value = float[4] {1,1,2,3}> () y = Upsample <mode="linear"> (x, s)'),
    ("Resize 10", 10, "float[1,1,4,4] x",
     "s = Constant <value = float[4] {1,1,2,1.5}> () y = Resize (x, s)"),
    ("Resize 10 smaller", 10, "float[1,1,5,7] x",
     "s = Constant <value = float[4] {1,1,0.5,0.4}> () y = Resize (x, s)"),
    ("Resize 10 both", 10, "float[1,1,5,7] x",
     "s = Constant <value = float[4] {1,1,1.7,0.4}> () y = Resize (x, s)"),
    ("Resize 10 run time", 10, "float[1,1,5,7] x, float[4] k",
     "o = Constant <value = float[4] {1,1,1.7,0.4}> () z = Sub (k, k) s = Add (z, o) "
     "y = Resize (x, s)"),
    ("Resize 10 linear", 10, "float[1,1,4,4] x",
     's = Constant <value = float[4] {1,1,2,0.6}> () y = Resize <mode="linear"> (x, s)'),
    ("Resize 11", 11, "float[1,1,4,4] x",
     's = Constant <value = float[4] {1,1,2,0.6}> () y = Resize <mode="linear"> (x, s, s)'),
    ("Resize 11 floor 2,0.6", 11, "float[1,1,4,8] x",
     's = Constant <value = float[4] {1,1,2,0.6}> () y = Resize <nearest_mode="floor", '
     'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s)'),
    ("Resize 11 floor 3,1.5", 11, "float[1,1,4,8] x",
     's = Constant <value = float[4] {1,1,3,1.5}> () y = Resize <nearest_mode="floor", '
     'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s)'),
    ("Resize 11 floor 0.5,0.25", 11, "float[1,1,4,8] x",
     's = Constant <value = float[4] {1,1,0.5,0.25}> () y = Resize <nearest_mode="floor", '
     'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s)'),
    ("Resize 11 default 2,0.6", 11, "float[1,1,4,8] x",
     's = Constant <value = float[4] {1,1,2,0.6}> () y = Resize <'
     'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s)'),
    ("Resize 11 default 3,1.5", 11, "float[1,1,4,8] x",
     's = Constant <value = float[4] {1,1,3,1.5}> () y = Resize <'
     'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s)'),
    ("Resize 11 default 0.5,0.25", 11, "float[1,1,4,8] x",
     's = Constant <value = float[4] {1,1,0.5,0.25}> () y = Resize <'
     'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s)'),
    ("Resize 13", 13, "float[1,1,4,4] x",
     's = Constant <value = float[4] {1,1,2,0.6}> () y = Resize <mode="cubic"> (x, , s)'),
    ("Resize 18", 18, "float[1,1,4,4] x",
     's = Constant <value = float[4] {1,1,2,0.6}> () y = Resize <mode="cubic"> (x, , s)'),
    ("Scatter", 9, "float[3,3] x",
     "i = Constant <value = int64[1,3] {2,0,1}> ()"
     " u = Constant <value = float[1,3] {5,6,7}> () y = Scatter (x, i, u)"),
    ("RoiAlign", 10, "float[1,1,5,5] x",
     "r = Constant <value = float[1,4] {0.5,0.25,3.5,4.0}> ()"
     " i = Constant <value = int64[1] {0}> ()"
     " y = RoiAlign <output_height=2, output_width=2, sampling_ratio=2> (x, r, i)"),
    ("GridSample", 16, "float[1,1,3,3] x, float[1,2,2,2] grid", "y = GridSample (x, grid)"),
    ("GridSample bicubic", 16, "float[1,1,3,3] x, float[1,2,2,2] grid",
     'y = GridSample <mode="bicubic", align_corners=1> (x, grid)'),
    ("DFT", 17, "float[1,4,3,1] x", "y = DFT (x)"),
    ("DFT axis", 19, "float[1,4,3,2] x", "y = DFT <axis=2, inverse=1> (x)"),
    ("DFT length", 17, "float[1,4,1] x",
     "k = Constant <value = int64 {6}> () y = DFT <onesided=1> (x, k)"),
    ("Cast", 7, "float[2,3] x", "a = Cast <to=7> (x) y = Cast <to=1> (a)"),
    ("Cast 18", 18, "float[2,3] x", "a = Cast <to=10> (x) y = Cast <to=1> (a)"),
    ("MaxPool", 7, "float[1,1,4,4] x", "y = MaxPool <kernel_shape=[2,2]> (x)"),
    ("AveragePool", 7, "float[1,1,5,5] x",
     "y = AveragePool <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x)"),
    ("PRelu", 9, "float[2,3] x, float[3] s", "y = PRelu (x, s)"),
    ("DepthToSpace", 9, "float[1,4,2,2] x", "y = DepthToSpace <blocksize=2> (x)"),
    ("ArgMax", 11, "float[2,3] x", "a = ArgMax <axis=1> (x) y = Cast <to=1> (a)"),
    ("Shape and Reshape", 9, "float[2,3] x",
     "s = Constant <value = int64[2] {0,-1}> () y = Reshape (x, s)"),
    ("LSTM", 9, "float[3,1,2] x, float[1,8,2] w",
     "y, h, c = LSTM <hidden_size=2> (x, w, w)"),
    ("GroupNormalization", 18, "float[2,4,3] x, float[2] s",
     "y = GroupNormalization <num_groups=2> (x, s, s)"),
    ("GroupNormalization dynamic", 20, "float[N,C,3] x, float[2] s",
     "y = GroupNormalization <num_groups=2> (x, s, s)"),
    ("GroupNormalization of channels", 20, "float[2,2,3] x, float[2] s",
     "y = GroupNormalization <num_groups=2> (x, s, s)"),
]  # fmt: skip

SIZES = {"N": 2, "C": 4, "": 0}


def _model(opset: int, inputs: str, nodes: str, inside: bool) -> ir.Model:
    head = HEADER.format(opset=opset)
    if not inside:
        return ir.from_onnx_text(f"{head} ({inputs}) => (float[] y) {{ {nodes} }}")
    branches = f"<then_branch = then () => (float[] y) {{ {nodes} }}, "
    branches += f"else_branch = other () => (float[] n) {{ {nodes} n = Neg (y) }}>"
    return ir.from_onnx_text(
        f"{head} ({inputs}, bool flag) => (float[] result) {{ result = If (flag) {branches} }}"
    )


def _arguments(model: ir.Model) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    arguments: dict[str, Any] = {"flag": np.array(True)}
    for value in model.graph.inputs:
        if value.name != "flag":
            shape = [2, 3, 4] if value.shape is None else value.shape
            sizes = [d if isinstance(d, int) else SIZES[d.value] for d in shape]
            arguments[str(value.name)] = rng.standard_normal(sizes).astype(np.float32)
    return {str(v.name): arguments[str(v.name)] for v in model.graph.inputs}


def _run(model: ir.Model) -> np.ndarray:
    return next(iter(compile(model, threads=1)(_arguments(model)).values()))


@pytest.mark.parametrize("inside", [False, True], ids=["main", "branch"])
@pytest.mark.parametrize("name, opset, inputs, nodes", CASES, ids=[case[0] for case in CASES])
def test_lifted_model_computes_the_same(
    name: str, opset: int, inputs: str, nodes: str, inside: bool
) -> None:
    model = _model(opset, inputs, nodes, inside)
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    lifted = normalize(model)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before
    assert lifted.graph.opset_imports == {"": 21}
    if "unknown rank" not in name:  # outputs must have a shape for the checker
        onnx.checker.check_model(ir.to_proto(lifted), full_check=True)
    want = _group_normalization(model) if "GroupNorm" in nodes else _run(model)
    np.testing.assert_allclose(_run(lifted), want, rtol=2e-6, atol=2e-6)


def _group_normalization(model: ir.Model) -> np.ndarray:
    """Scale and bias are for each group, as opset 18 had them; ONNX Runtime has no kernel."""
    x, s = (a.astype(np.float64) for n, a in _arguments(model).items() if n != "flag")
    groups = x.reshape(x.shape[0], 2, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return (normal * s[:, None] + s[:, None]).reshape(x.shape)


def test_every_change_of_an_operator_has_a_case() -> None:
    covered = {op_type for _, _, _, nodes in CASES for op_type, _ in (*LIFTS, *TYPED_LIFTS)
               if f"{op_type} " in nodes}  # fmt: skip
    assert {op_type for op_type, _ in (*LIFTS, *TYPED_LIFTS)} - covered == {"Scan"}


def test_every_change_of_form_is_lifted() -> None:
    """What older nodes may have and newer ones may not must be among the lifts."""
    missing = []
    history: dict[str, list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            history.setdefault(schema.name, []).append(schema)
    for name, schemas in history.items():
        schemas.sort(key=lambda schema: schema.since_version)
        for old, new in itertools.pairwise(schemas):
            lost = set(old.attributes) - set(new.attributes)
            changed = lost or [i.name for i in old.inputs] != [
                i.name for i in new.inputs[: len(old.inputs)]
            ]
            key = (name, new.since_version)
            if changed and key not in LIFTS and key not in TYPED_LIFTS and new.since_version > 7:
                missing.append(key)
    assert missing == []


SCAN_8 = """<ir_version: 3, opset_import: ["" : 8]>
model (float[2,3] s, float[2,4,3] x, float[2,4] k) => (float[2,3] last, float[2,4,3] y) {
  last, y = Scan <num_scan_inputs=2, directions=[1, 0], body = step
    (float[3] a, float[3] row, float p) => (float[3] b, float[3] out) {
      t = Mul (row, p) b = Add (a, t) out = Neg (b) }> (, s, x, k) }"""


def test_scan_over_batches() -> None:
    model = ir.from_onnx_text(SCAN_8)
    lifted = normalize(model)
    want, got = (compile(each, threads=1)(_arguments(model)) for each in (model, lifted))
    state = _arguments(model)["s"].copy()
    rows = _arguments(model)["x"][:, ::-1] * _arguments(model)["k"][:, :, None]
    np.testing.assert_allclose(want["last"], state + rows.sum(1), rtol=1e-5, atol=1e-6)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "opset, text, message",
    [
        (
            8,
            "(int64[2] n, float[2,3] s, float[2,4,3] x) => (float[2,3] last) { last = Scan "
            "<num_scan_inputs=1, body = step (float[3] a, float[3] row) => (float[3] b) "
            "{ b = Add (a, row) }> (n, s, x) }",
            "Node 'last' (ai.onnx@8::Scan) with sequence_lens has no equal in newer opsets. "
            "Export the model with opset 9 or newer.",
        ),
        (
            9,
            "(float[2] x) => (float[2] m) { y, m = Dropout (x) }",
            "Node 'y' (ai.onnx@11::Dropout) whose mask is read has no equal in newer opsets. "
            "Export the model with opset 12 or newer.",
        ),
        (
            11,
            "(float[2] x) => (float[2] y, bool[2] m) { y, m = Dropout (x) }",
            "Node 'y' (ai.onnx@11::Dropout) whose mask is read has no equal in newer opsets. "
            "Export the model with opset 12 or newer.",
        ),
        (
            13,
            "(float[2,3] x, float[3] s) => (float[3] v) "
            "{ y, m, n, v = BatchNormalization (x, s, s, s, s) }",
            "Node 'y' (ai.onnx@13::BatchNormalization) whose saved_mean or saved_var is read has "
            "no equal in newer opsets. Export the model with opset 14 or newer.",
        ),
        (
            11,
            "(float[1,1,4,4] x) => (float[1,1,8,8] y) { "
            's = Constant <value = float[4] {1,1,2,2}> () y = Resize <mode="linear", '
            'coordinate_transformation_mode="tf_half_pixel_for_nn"> (x, s, s) }',
            "Node 'y' (ai.onnx@12::Resize) with tf_half_pixel_for_nn and this way to round has no "
            "equal in newer opsets. Export the model with opset 13 or newer.",
        ),
        (
            9,
            "(float[2] x) => (float[2] y) { a = my.Op (x) y = Clip <min=0.5> (a) }",
            "Node 'Clip' (Clip) has the attribute 'min', which newer opsets have as a tensor of "
            "the type of its first input, and that type is not known. Declare it in the model's "
            "value_info.",
        ),
    ],
)
def test_refusals(opset: int, text: str, message: str) -> None:
    head = HEADER.format(opset=opset).replace("]>", ', "my" : 1]>')
    with pytest.raises(UnsupportedError) as error:
        normalize(ir.from_onnx_text(head + text))
    assert str(error.value) == message
