import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases
from tests.corpus.cases import cases

from whileback.engines import compile
from whileback.graph.shapes import FLOATS


def elements(type_):
    kind = type_.WhichOneof("value")
    inner = getattr(type_, kind)
    return inner.elem_type if kind == "tensor_type" else elements(inner.elem_type)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_only_models_without_a_float_are_left_out():
    left = []
    for each in collect_testcases(None):
        ends = (each.model.graph.input, each.model.graph.output)
        float_ends = [any(elements(v.type) in FLOATS for v in values) for values in ends]
        if all(float_ends) and each.name not in cases():
            left.append(each.name)
    assert left == ["test_loop13_seq"]  # its only float input is an empty sequence
    assert len(cases()) > 1300


CONTAINERS = {
    "test_identity_sequence": (["x_0", "x_1"], ["y_0", "y_1"]),
    "test_identity_opt": (["opt_in_0"], ["opt_out_0"]),
    "test_loop16_seq_none": (["opt_seq_0"], [f"seq_res_{index}" for index in range(6)]),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_made_of_tensors_and_taken_apart(name):
    case = cases()[name]
    wrt, of = CONTAINERS[name]
    assert (case.wrt, case.of) == (wrt, of)
    outputs = compile(case.model, threads=1)(case.feeds)
    assert list(outputs) == of
    values = [value for value in case.model.graph.outputs if value.name in of]
    for value in values:
        assert isinstance(value.type, ir.TensorType)
        assert tuple(value.shape) == outputs[value.name].shape
    onnx.checker.check_model(ir.to_proto(case.model), full_check=True)


def test_masked_places_are_zero():
    name = "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal"
    case = cases()[name]
    assert case.of[3] == "qk_matmul_output_0"
    result = compile(case.model, threads=1)(case.feeds)[case.of[3]]
    assert np.isfinite(result).all()
    assert (np.abs(result) < 10).all()
    assert (result == 0).sum() == 84


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("test_abs", "Abs"),
        ("test_gelu_tanh_1_expanded", "Gelu"),
        ("test_elu_expanded_ver18", "Elu"),
        ("test_ai_onnx_ml_binarizer", "Binarizer"),
    ],
)
def test_what_is_tested(name, operator):
    assert cases()[name].operator == operator
