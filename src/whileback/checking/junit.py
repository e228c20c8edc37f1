"""A gradient check as a report of tests, in the XML of JUnit, which servers of tests read."""

from __future__ import annotations

from xml.etree import ElementTree

from whileback.checking.report import Finding, Report
from whileback.formats.xml_text import xml_text

__all__ = ["to_junit"]


def to_junit(report: Report, model: str) -> bytes:
    """Return the report as one suite named after the model, with a test for each value.

    A gradient that is wrong is a failure; what there is to know of others is their output.
    """
    suite = ElementTree.Element("testsuite", name=xml_text(f"whileback check {model}"))
    failures = sum(not finding.ok for finding in report.findings)
    counts = {"tests": len(report.findings), "failures": failures, "errors": 0, "skipped": 0}
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    for finding in report.findings:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=xml_text(model),
            name=xml_text(f"gradient of {finding.name}"),
        )
        _result(case, finding)
    ElementTree.indent(suite)
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _result(case: ElementTree.Element, finding: Finding) -> None:
    table = xml_text(str(Report((finding,))))
    if finding.ok:
        ElementTree.SubElement(case, "system-out").text = table
        return
    failure = ElementTree.SubElement(case, "failure", message=xml_text(finding.summary))
    failure.text = table
