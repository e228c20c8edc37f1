"""Target opsets and caps."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import UnsupportedError
from whileback.graph.normalize import normalize
from whileback.graph.versions import limit_versions

PLAIN = "(float[2,3] x) => (float[2,3] y) { a = Exp(x) y = Add(a, x) }"


@pytest.mark.parametrize(
    "own, cap, want",
    [(7, None, 21), (21, None, 21), (23, None, 23), (7, 13, 13), (7, 30, 21), (23, 15, 15)],
)
def test_opset(own: int, cap: int | None, want: int) -> None:
    model = normalize(parse(PLAIN, own), opset=cap)
    assert model.graph.opset_imports == {"": want}
    feeds = {"x": np.ones((2, 3), np.float32)}
    assert compile(model, threads=1)(feeds)["y"][0, 0] == pytest.approx(np.e + 1)


@pytest.mark.parametrize(
    "own, cap, want", [(3, None, 10), (8, None, 10), (12, None, 12), (3, 8, 8), (12, 7, 7)]
)
def test_ir_version(own: int, cap: int | None, want: int) -> None:
    text = f'<ir_version: {own}, opset_import: ["" : 9]> g {PLAIN}'
    assert normalize(parse(text), ir_version=cap).ir_version == want


def test_lifted_only_as_far_as_the_cap_allows() -> None:
    text = (
        "(float[2,3] x) => (float[2,1] y) { a = Clip <max=1.0> (x) y = ReduceMean <axes=[1]> (a) }"
    )
    model = normalize(parse(text, 9), opset=17)
    assert model.graph[1].attributes["axes"].as_ints() == (1,)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


@pytest.mark.parametrize(
    "text, cap, message",
    [
        (
            "(float[2,4,2] x, float[4] s) => (float[2,4,2] y) "
            "{ a = Gelu(x) [norm] y = GroupNormalization <num_groups=2> (a, s, s) }",
            20,
            "opset=20 cannot be kept: node 'norm' (ai.onnx@21::GroupNormalization) needs opset "
            "21. Allow opset 21, or change the model.",
        ),
        (
            "(float[2,3] x, float[3] s) => (float[2,3] y) "
            "{ a = Softmax(x) y = LayerNormalization(a, s) }",
            12,
            "opset=12 cannot be kept: node 'LayerNormalization' (ai.onnx@21::LayerNormalization) "
            "needs opset 17. Allow opset 17, or change the model.",
        ),
        (
            "(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }",
            12,
            "opset=12 cannot be kept: node 'Softmax' (ai.onnx@21::Softmax) needs opset 13. "
            "Allow opset 13, or change the model.",
        ),
        (
            "(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = Mul(x, x) }",
            12,
            "opset=12 cannot be kept: node 'Mul' (ai.onnx@21::Mul) needs opset 13. "
            "Allow opset 13, or change the model.",
        ),
    ],
)
def test_operator_that_needs_more_than_the_cap(text: str, cap: int, message: str) -> None:
    model = normalize(parse(text))
    with pytest.raises(UnsupportedError) as error:
        limit_versions(model, cap, None)
    assert str(error.value) == message
    assert model.graph.opset_imports == {"": 21}


@pytest.mark.parametrize(
    "text, cap, message",
    [
        (
            "(float x) => (float y) <float w = {2}> { y = Mul(x, w) }",
            3,
            "ir_version=3 cannot be kept: initializers that are no inputs need IR version 4. "
            "Allow that.",
        ),
        (
            "(float x) => (float y) { a = Cast <to=22> (x) y = Cast <to=1> (a) }",
            9,
            "ir_version=9 cannot be kept: 'a' is INT4, which needs IR version 10. "
            "Allow that, or change the model.",
        ),
    ],
)
def test_what_needs_a_newer_ir_version(text: str, cap: int, message: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        normalize(parse(text), ir_version=cap)
    assert str(error.value) == message


def test_opset_that_is_too_old() -> None:
    with pytest.raises(UnsupportedError) as error:
        normalize(parse(PLAIN, 6))
    assert str(error.value) == (
        "Opset 6 of ai.onnx is older than 7, the oldest that is read. Export the model again, or "
        "convert it with onnx.version_converter.convert_version."
    )
