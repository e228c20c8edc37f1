"""A gradient check as a report of tests, in the XML of JUnit, which servers of tests read."""

from __future__ import annotations

from xml.etree import ElementTree

from whileback.checking.report import Finding, Report
from whileback.formats.xml_text import xml_text

__all__ = ["to_junit"]


def to_junit(report: Report, model: str) -> bytes:
    """Return the report as one suite named after the model, with a test for each value.

    A gradient that is wrong or not finite is a failure, one of which nothing is known an error;
    what there is to know of others is their output. Times are in seconds.
    """
    suite = ElementTree.Element("testsuite", name=xml_text(f"whileback check {model}"))
    kinds = [_kind(finding) for finding in report.findings]
    suite.attrib |= {
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": "0",
        "time": f"{sum(finding.seconds for finding in report.findings):.3f}",
    }
    for finding in report.findings:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=xml_text(model),
            name=xml_text(f"gradient of {finding.name}"),
            time=f"{finding.seconds:.3f}",
        )
        _result(case, finding)
    ElementTree.indent(suite)
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _kind(finding: Finding) -> str:
    if finding.ok:
        return "system-out"
    return "error" if finding.verdict == "unknown" else "failure"


def _result(case: ElementTree.Element, finding: Finding) -> None:
    element = ElementTree.SubElement(case, _kind(finding))
    element.text = xml_text(str(Report((finding,))))
    if not finding.ok:
        element.set("message", xml_text(finding.summary))
