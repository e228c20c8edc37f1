import numpy as np
import pytest
from tests.corpus.cases import cases
from tests.corpus.opsets import at_opset

from whileback.engines import compile


def at(name, opset):
    return at_opset(cases()[name], opset)


def run(case):
    return next(iter(compile(case.model, threads=1)(case.feeds).values()))


def test_nodes_that_are_valid_stay():
    case = at("test_softmax_axis_0", 9)
    assert case.model.opset_imports == {"": 9}
    now, then = run(cases()["test_softmax_axis_0"]), run(case)
    assert now.sum() == pytest.approx(20)  # 4·5 sums of one along the axis
    assert then.sum() == pytest.approx(1)  # one over all axes


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("test_reduce_l1_keep_dims_random", {"keepdims": 1, "axes": [2]}),
        ("test_top_k", {"axis": 1, "k": 3}),
        ("test_clip", {"min": -1.0, "max": 1.0}),
    ],
)
def test_inputs_become_the_attributes_that_they_were(name, attributes):
    case = at(name, 9)
    found = {key: attribute.value for key, attribute in case.model.graph[0].attributes.items()}
    assert {key: list(v) if key == "axes" else v for key, v in found.items()} == attributes
    assert list(case.feeds) == [str(value.name) for value in case.model.graph.inputs]
    np.testing.assert_allclose(run(case), run(cases()[name]), rtol=1e-6)


def test_variadic_inputs_stay():
    assert len(at("test_concat_1d_axis_0", 9).model.graph.inputs) == 2


def test_the_converter_writes_what_has_another_name():
    case = at("test_upsample_nearest", 13)
    assert [node.op_type for node in case.model.graph][-1] == "Resize"
    np.testing.assert_allclose(run(case), run(cases()["test_upsample_nearest"]))


@pytest.mark.parametrize(("name", "opset"), [("test_gelu_tanh_1", 13), ("test_adam", 21)])
def test_what_did_not_exist(name, opset):
    assert at(name, opset) is None
