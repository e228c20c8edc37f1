"""Gradients in the types beside FLOAT: they have it themselves, and run where the model does."""

import ml_dtypes
import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import EngineError

DTYPES = {"double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

# The call, and the shapes of its inputs that are floats.
CALLS = [
    ("Add(x, w)", "2,3", "3"),
    ("Sub(x, w)", "2,3", "3"),
    ("Mul(x, w)", "2,3", "3"),
    ("Div(x, w)", "2,3", "3"),
    ("Pow(x, three)", "2,3"),
    ("Max(x, w)", "2,3", "3"),
    ("Clip(x, w, v)", "2,3", "", ""),
    ("Where(c, x, w)", "2,3", "3"),
    ("MatMul(x, w)", "2,3", "3,4"),
    ("Gemm(x, w, v)", "2,3", "3,4", "4"),
    ('Einsum<equation = "ij,jk->ik">(x, w)', "2,3", "3,4"),
    ("Relu(x)", "2,3"),
    ("LeakyRelu(x)", "2,3"),
    ("Sigmoid(x)", "2,3"),
    ("Tanh(x)", "2,3"),
    ("Gelu(x)", "2,3"),
    ("HardSwish(x)", "2,3"),
    ("Erf(x)", "2,3"),
    ("Exp(x)", "2,3"),
    ("Neg(x)", "2,3"),
    ("Abs(x)", "2,3"),
    ("Reciprocal(x)", "2,3"),
    ("Softmax(x)", "2,3"),
    ("LogSoftmax(x)", "2,3"),
    ("ReduceSum(x, one)", "2,3"),
    ("ReduceMean(x, one)", "2,3"),
    ("ReduceMax(x, one)", "2,3"),
    ("ReduceL2(x, one)", "2,3"),
    ("CumSum(x, one)", "2,3"),
    ("LayerNormalization(x, w, v)", "2,8", "8", "8"),
    ("InstanceNormalization(x, w, v)", "2,3,4", "3", "3"),
    ("GroupNormalization<num_groups = 2>(x, w, v)", "2,4,4", "4", "4"),
    ("Conv(x, w, v)", "1,2,5", "3,2,3", "3"),
    ("ConvTranspose(x, w, v)", "1,2,5", "2,3,3", "3"),
    ("MaxPool<kernel_shape = [2]>(x)", "1,2,6"),
    ("AveragePool<kernel_shape = [2]>(x)", "1,2,6"),
    ("Reshape(x, six)", "2,3"),
    ("Transpose(x)", "2,3"),
    ("Concat<axis = 1>(x, w)", "2,3", "2,1"),
    ("Slice(x, one, three)", "4,3"),
    ("Gather(x, places)", "2,3"),
    ("GatherElements(x, places)", "2,3"),
    ("GatherND(x, places)", "2,3"),
    ("ScatterElements(x, places, w)", "2,3", "2,2"),
    ("ScatterND(x, places, w)", "2,3", "2"),
    ("Pad(x, pads)", "2,3"),
    ("Expand(x, places_shape)", "2,1"),
    ("Squeeze(x)", "2,1,3"),
    ("Unsqueeze(x, one)", "2,3"),
    ("LSTM<hidden_size = 2>(x, w, v)", "3,2,4", "1,8,4", "1,8,2"),
    ("GRU<hidden_size = 2>(x, w, v)", "3,2,4", "1,6,4", "1,6,2"),
]
CONSTANTS = """
  one = Constant<value_ints = [1]>() three = Constant<value_ints = [3]>()
  six = Constant<value_ints = [6]>() pads = Constant<value_ints = [0, 1, 1, 0]>()
  places = Constant<value = int64[2,2] {0, 1, 1, 0}>() places_shape = Shape(places)
  c = Constant<value = bool[2,1] {1, 0}>()
"""
# Of what ONNX Runtime 1.32 runs in BFLOAT16, which is little beside moving data.
IN_BFLOAT16 = "LayerNorm Reshape Transpose Concat Slice Gather Scatter Squeeze Unsqueeze".split()


def judge(dtype, call, shapes):
    """Judge the gradients of a call, or return False where ONNX Runtime does not run it."""
    rng = np.random.default_rng(3)
    feeds = {}
    for name, shape in zip("xwv", shapes, strict=False):
        dims = tuple(map(int, filter(None, shape.split(","))))
        numbers = rng.choice([-1, 1], dims) * rng.uniform(0.3, 1.6, dims)
        feeds[name] = np.asarray(numbers).astype(DTYPES[dtype])
    head = ", ".join(f"{dtype}[{shape}] {name}" for name, shape in zip(feeds, shapes, strict=True))
    head = head.replace("[]", "")
    model = parse(f"({head}) => ({dtype} y) {{ {CONSTANTS} y = {call} }}")
    model.graph.outputs[0].shape = None
    try:
        compile(model, threads=1)(feeds)
    except EngineError:
        return False
    gradients = assert_gradient(model, ["y"], list(feeds), feeds, kinks=True)
    assert all(gradient.dtype == DTYPES[dtype] for gradient in gradients.values())
    return True


@pytest.mark.parametrize(("call", "shapes"), [(call, shapes) for call, *shapes in CALLS])
def test_double_and_float16(call, shapes):
    ran = [judge(dtype, call, shapes) for dtype in ("double", "float16")]
    assert any(ran)


@pytest.mark.parametrize(("call", "shapes"), [(call, shapes) for call, *shapes in CALLS])
def test_bfloat16(call, shapes):
    ran = judge("bfloat16", call, shapes)
    assert ran or not call.startswith(tuple(IN_BFLOAT16))
