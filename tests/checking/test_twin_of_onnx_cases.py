"""Twins of the models that ONNX tests its operators with give the results that ONNX recorded."""

import warnings

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.case.node import collect_testcases

from whileback.checking.truth import compile_exactly
from whileback.checking.twin import float64_twin
from whileback.engines import compile

HALVES = ("float16", "bfloat16")
# ONNX Runtime has no double kernel and there is no expansion: left to the reference engine.
BY_REFERENCE = {"Det", "Resize", "RoiAlign", "SwiGLU", "Upsample"}
OUT_OF_SCOPE = (
    "test_bernoulli",  # random
    "test_bitcast",  # about the bits of a type
    "test_cast",  # about what a type cannot hold
    "test_maxunpool_export_with_output_shape",  # ONNX Runtime reads the indices differently
    "test_optional",  # nothing to compute with
    "test_pow_types_float32_uint",  # no kernel for the exponent
    "test_quantizelinear",  # steps
    # ONNX Runtime, which the twin follows, maps corners to corners whatever the scales say.
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
)


def arrays(tensors):
    return [
        onnx.numpy_helper.to_array(t) if isinstance(t, onnx.TensorProto) else t for t in tensors
    ]


def cases():
    """Yield models of standard operators with float inputs, their arguments and results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        collected = collect_testcases(None)
    for case in collected:
        standard = {each.domain for each in case.model.opset_import} == {""}
        if not standard or case.name.startswith(OUT_OF_SCOPE) or case.name.endswith("_expanded"):
            continue
        inputs, outputs = map(arrays, case.data_sets[0])
        values = [*inputs, *outputs]
        if all(isinstance(value, np.ndarray) for value in values) and any(map(is_float, inputs)):
            names = [value.name for value in case.model.graph.input]
            yield case, dict(zip(names, inputs, strict=True)), outputs


def is_float(array):
    return array.dtype == np.float32 or array.dtype.name in HALVES


def agree(got, want, tolerance):
    if got.shape != want.shape:
        return False
    return np.allclose(got, want.astype(got.dtype), rtol=tolerance, atol=tolerance, equal_nan=True)


def test_twins_give_the_recorded_results():
    count, wrong = 0, []
    for case, feeds, want in cases():
        twin = float64_twin(ir.from_proto(case.model))
        wide = {n: v.astype(np.float64) if is_float(v) else v for n, v in feeds.items()}
        if {node.op_type for node in twin.graph} & BY_REFERENCE:
            got = compile_exactly(ir.from_proto(case.model))(wide)
        else:
            got = compile(twin, optimization="disabled", threads=1)(wide)
        half = any(value.dtype.name in HALVES for value in (*feeds.values(), *want))
        tolerance = 2e-2 if half else 1e-4
        if not all(agree(*pair, tolerance) for pair in zip(got.values(), want, strict=True)):
            wrong.append(case.name)
        count += 1
    assert not wrong
    assert count > 800
