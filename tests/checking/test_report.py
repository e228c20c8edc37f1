import math
from xml.etree import ElementTree

import numpy as np
import onnx_ir as ir
import pytest

import whileback
from whileback.checking.junit import to_junit
from whileback.checking.report import Comparison, Finding, Report
from whileback.gradient import registry

RELU = """<ir_version: 10, opset_import: ["" : 21]>
relu (float[5] x) => (float y) {
    a = Relu (x)
    y = ReduceSum <keepdims = 0> (a)
}"""
KINK = Comparison("[0]", 0.0, 0.5, 1e-6, kink=True, left=0.0, right=1.0)


def test_the_table():
    report = Report(
        (
            Finding("w", "FLOAT[2,2]", "ok", Comparison("[0,1]", 0.123456789, 0.12345678, 1e-6)),
            Finding("bias", "FLOAT[3]", "WRONG shape, not [4]"),
        )
    )
    assert str(report) == (
        "value  type        verdict               worst at  gradient     expected    error    "
        "allowed\n"
        "w      FLOAT[2,2]  ok                    [0,1]     0.123456789  0.12345678  9.0e-09  "
        "1.0e-06\n"
        "bias   FLOAT[3]    WRONG shape, not [4]"
    )


def test_a_report_is_ok_if_every_finding_is():
    good = [Finding("w", "FLOAT[]", verdict) for verdict in ("ok", "kink", "zero")]
    assert Report(tuple(good)).ok
    assert not Report((*good, Finding("w", "FLOAT[]", "WRONG"))).ok


def test_kinks_are_told_apart_from_errors_and_with_both_slopes():
    x = np.array([0, 1, -1, 0, 2], np.float32)
    report = whileback.check(ir.from_onnx_text(RELU), "y", "x", {"x": x})
    (finding,) = report.findings
    assert (finding.verdict, finding.ok, finding.compared) == ("kink", True, 5)
    assert str(report).splitlines()[2] == (
        "x: no derivative at 2 of 5 places, which are not judged: "
        "[0] (gradient 0, slopes 0 and 1), [3] (gradient 0, slopes 0 and 1)"
    )


def test_beside_a_kink_an_error_is_an_error(monkeypatch):
    def wrong(op, node, dY):
        (X,) = node.inputs
        return op.Where(op.Greater(X, 0.0), op.Mul(dY, 1.01), 0.0)

    monkeypatch.setitem(registry._ENTRIES, ("", "Relu"), registry.Entry("", "Relu", rule=wrong))
    x = np.array([0, 1, -1, 0, 2], np.float32)
    (finding,) = whileback.check(ir.from_onnx_text(RELU), "y", "x", {"x": x}).findings
    assert (finding.verdict, finding.ok, len(finding.kinks)) == ("WRONG", False, 2)


@pytest.mark.parametrize("place", [0, 37, 99])
def test_the_element_that_is_wrong_is_found_in_a_large_value(monkeypatch, place):
    def wrong(op, node, dY):
        factors = np.ones(100, np.float32)
        factors[place] = 1.1
        return op.Mul(op.Mul(dY, op.Cos(node.inputs[0])), factors)

    monkeypatch.setitem(registry._ENTRIES, ("", "Sin"), registry.Entry("", "Sin", rule=wrong))
    model = ir.from_onnx_text(RELU.replace("[5]", "[100]").replace("Relu", "Sin"))
    (finding,) = whileback.check(model, "y", "x").findings
    assert finding.verdict == "WRONG"
    assert finding.worst.where == f"[{place}]"
    assert finding.worst.got == pytest.approx(1.1 * finding.worst.want, rel=1e-4)


def test_notes_name_some_kinks_and_count_the_others():
    end = Comparison("[9]", 1.0, float("nan"), 0.0, kink=True, right=2.0)
    finding = Finding("x", "FLOAT[9]", "kink", KINK, (KINK, end, KINK, KINK, KINK), 9)
    assert finding.note == (
        "no derivative at 5 of 9 places, which are not judged: "
        "[0] (gradient 0, slopes 0 and 1), "
        "[9] (gradient 1, slope 2 on the one side that there is), "
        "[0] (gradient 0, slopes 0 and 1), and 2 more"
    )
    assert Finding("x", "FLOAT[]", "zero", KINK).note == (
        "all of it is zero, so that nothing was seen; other inputs may show more"
    )


def test_a_report_of_tests():
    wrong = Finding("b\x00", "FLOAT[]", "WRONG", Comparison("[]", 1.0, 2.0, 1e-6))
    shape = Finding("c", "FLOAT[3]", "WRONG shape, not [4]")
    blind = Finding(
        "d", "FLOAT[]", "unknown", Comparison("[]", 1.0, math.nan, 0.0, True), seconds=2
    )
    kink = Finding("a<b", "FLOAT[]", "kink", KINK, (KINK,), 1, seconds=0.25)
    report = Report((kink, wrong, shape, blind))
    suite = ElementTree.fromstring(to_junit(report, "m.onnx"))
    assert suite.attrib == {
        **{"name": "whileback check m.onnx", "tests": "4", "failures": "2"},
        **{"errors": "1", "skipped": "0", "time": "2.250"},
    }
    assert [case.get("name") for case in suite] == [
        *("gradient of a<b", "gradient of b\ufffd", "gradient of c", "gradient of d"),
    ]
    assert [case.get("time") for case in suite] == ["0.250", "0.000", "0.000", "2.000"]
    assert "no derivative at 1 of 1 places" in str(suite[0].findtext("system-out"))
    assert [case.find("failure").get("message") for case in suite[1:3]] == [
        "WRONG at []: 1, expected 2 (error 1.0e+00, allowed 1.0e-06)",
        "WRONG shape, not [4]",
    ]
    assert suite[3].find("error").get("message").startswith("unknown at []: 1, expected nan")


@pytest.mark.parametrize(
    ("node", "x", "verdict", "where", "status"),
    [
        ("Sqrt (x)", [1, 2], "ok", None, 0),
        ("Sqrt (x)", [0, 1], "infinite", "[0]", 1),
        ("Sqrt (x)", [-1, 1], "unknown", "[0]", 2),
        ("Log (x)", [0, 1], "unknown", "[0]", 2),
        ("Log (x)", [-1, -2], "unknown", "[0]", 2),
        ("Div (x, x)", [0, 1], "unknown", "[0]", 2),
        ("Mul (x, nan)", [1, 1], "unknown", "[0]", 2),
        ("Mul (x, inf)", [1, 1], "unknown", "[0]", 2),
        ("Pow (x, power)", [0, 1], "kink", None, 0),
        ("Abs (x)", [0, 1], "kink", None, 0),
        ("Acosh (x)", [1, 2], "infinite", "[0]", 1),
    ],
)
def test_what_is_not_finite_does_not_pass_for_a_kink(node, x, verdict, where, status):
    """At an end of what a model is defined for, there is one slope; elsewhere none is known."""
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]> f (float[2] x) => (float[2] y) {
            power = Constant <value_float = 1.5> ()
            zero = Constant <value_float = 0.0> ()
            one = Constant <value_float = 1.0> ()
            inf = Div (one, zero)
            nan = Div (zero, zero)
            y = NODE }""".replace("NODE", node)
    )
    report = whileback.check(model, "y", "x", {"x": np.float32(x)})
    (finding,) = report.findings
    assert (finding.verdict, report.status) == (verdict, status), str(report)
    assert finding.ok is report.ok is (status == 0)
    assert where is None or finding.worst.where == where


def test_what_is_wrong_comes_before_what_is_unknown():
    good, bad, blind = (Finding("x", "FLOAT[]", verdict) for verdict in ("ok", "WRONG", "unknown"))
    statuses = [
        Report(some).status for some in ((good,), (good, blind), (good, bad, blind), (bad,))
    ]
    assert statuses == [0, 2, 1, 1]


def test_seconds_are_measured():
    (finding,) = whileback.check(ir.from_onnx_text(RELU), "y", "x").findings
    assert 0 < finding.seconds < 60
