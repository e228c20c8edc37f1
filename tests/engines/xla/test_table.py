"""A fixed sample of what `make xla-table` judges: nothing that the engine takes is wrong."""

from __future__ import annotations

import pytest
from tests.corpus.cases import cases
from tests.engines.xla.nodes import node_tests
from tests.engines.xla.table import judge, page

MODELS = [test._testMethodName.removesuffix("_cpu") for test in node_tests()][7::16]
GRADIENTS = list(cases())[5::32]


@pytest.mark.parametrize("name", MODELS)
def test_models_of_onnx(name: str) -> None:
    assert judge(("model", name))[0] not in ("wrong", "refused")


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_the_corpus(name: str) -> None:
    assert judge(("gradient", name))[0] not in ("wrong", "refused")


def test_strings_are_not_held() -> None:
    assert judge(("model", "test_string_concat")) == ("not held", "it has strings")


def test_the_page_counts_what_passes() -> None:
    verdicts = {
        ("model", "test_a"): ("passed", ""),
        ("model", "test_b"): ("wrong", "a | b"),
        ("model", "test_c"): ("not held", "it has strings"),
        ("gradient", "test_a"): ("passed", ""),
    }
    text = page(verdicts)
    assert "Models: 3, of which 1 passed, 1 wrong, 1 not held. 50.0 % pass." in text
    assert "Gradients: 1, of which 1 passed. 100.0 % pass." in text
    assert "| test_b | wrong | a \\| b |\n| test_c | not held | it has strings |" in text
