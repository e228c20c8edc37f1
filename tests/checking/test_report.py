from whileback.checking.report import Comparison, Finding, Report


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
