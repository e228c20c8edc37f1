from tests.corpus.columns import COLUMNS
from tests.corpus.table import page
from tests.corpus.verdicts import Verdict

FIRST, SECOND, OLD = COLUMNS[:3]
VERDICTS = {
    (FIRST, "test_abs"): Verdict("passed"),
    (SECOND, "test_abs"): Verdict("wrong", "value  type  verdict\nx      FLOAT WRONG"),
    (OLD, "test_abs"): Verdict("passed"),
    (FIRST, "test_ceil"): Verdict("not differentiable", "Ceil: it jumps"),
    (FIRST, "test_ceil_example"): Verdict("not differentiable", "Ceil: it jumps"),
    (FIRST, "test_dynamicquantizelinear"): Verdict(
        "not differentiable", "NoGradientError: operators that round:\n  a node\nSay so."
    ),
    (FIRST, "test_gelu_tanh_1"): Verdict("refused", "UnsupportedError: node 'Gelu' is new"),
    (SECOND, "test_gelu_tanh_1"): Verdict("refused", "UnsupportedError: node 'Gelu' is new"),
    (OLD, "test_gelu_tanh_1"): None,
    (FIRST, "test_gelu_tanh_2"): Verdict(
        "passed", "in NumPy: no kernel in model 'test_gelu_tanh_2'"
    ),
}


def section(title):
    return page(VERDICTS).split(f"## {title}\n\n")[1].split("\n\n#")[0].splitlines()


def test_the_head_counts_models():
    assert "\n6 models of ONNX " in page(VERDICTS)


def test_totals():
    head, _, *rows = section("In all")
    assert head == ("|  | first order | second order | opset 9 | opset 13 | opset 17 | opset 21 |")
    assert rows == [
        "| passed | 2 | 0 | 1 | 0 | 0 | 0 |",
        "| not differentiable | 3 | 0 | 0 | 0 | 0 | 0 |",
        "| engine | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| wrong | 0 | 1 | 0 | 0 | 0 | 0 |",
        "| refused | 1 | 1 | 0 | 0 | 0 | 0 |",
        "| models | 6 | 2 | 1 | 0 | 0 | 0 |",
    ]


def test_operators():
    assert section("By operator")[-4:] == [
        "| Abs | 1 | 1 wrong | 1 | – | – | – |",
        "| Ceil | 2 n.d. | – | – | – | – | – |",
        "| DynamicQuantizeLinear | 1 n.d. | – | – | – | – | – |",
        "| Gelu | 1, 1 refused | 1 refused | – | – | – | – |",
    ]


def test_reasons_and_messages():
    assert section("Not differentiable") == [
        "* Ceil: it jumps",
        "* DynamicQuantizeLinear: NoGradientError: operators that round: a node Say so.",
    ]
    assert section("In NumPy")[-1] == (
        "* Gelu: in NumPy: no kernel in model …: `test_gelu_tanh_2` (first order)"
    )
    assert section("Engine") == ["None."]
    assert section("Wrong") == [
        "* Abs: value type verdict x FLOAT WRONG: `test_abs` (second order)"
    ]
    assert section("Refused") == [
        "* Gelu: UnsupportedError: node 'Gelu' is new: "
        "`test_gelu_tanh_1` (first order, second order)"
    ]
