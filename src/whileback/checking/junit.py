"""A gradient check as a report of tests, in the XML of JUnit, which servers of tests read."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from whileback.checking.report import Finding, Report

__all__ = ["to_junit"]

# What XML 1.0 cannot hold at all, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report, model: str) -> bytes:
    """Return the report as one suite named after the model, with a test for each value.

    A gradient that is wrong is a failure; what there is to know of others is their output.
    """
    suite = ElementTree.Element("testsuite", name=_text(f"whileback check {model}"))
    failures = sum(not finding.ok for finding in report.findings)
    counts = {"tests": len(report.findings), "failures": failures, "errors": 0, "skipped": 0}
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    for finding in report.findings:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_text(model), name=_text(f"gradient of {finding.name}")
        )
        _result(case, finding)
    ElementTree.indent(suite)
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _result(case: ElementTree.Element, finding: Finding) -> None:
    table = _text(str(Report((finding,))))
    if finding.ok:
        ElementTree.SubElement(case, "system-out").text = table
        return
    failure = ElementTree.SubElement(case, "failure", message=_text(finding.summary))
    failure.text = table


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
