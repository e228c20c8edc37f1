"""Writes docs/caffe2-cases.md: what the real Caffe2 and whileback make of every recorded case.

    WHILEBACK_CAFFE2_PYTHON=… .venv/bin/python tools/caffe2_table.py

Our columns are the outcomes of the tests in tests/caffe2/golden, which are run for it; without the
environment variable the last column stays empty.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TESTS = ROOT / "tests" / "caffe2" / "golden"
OUTPUT = ROOT / "docs" / "caffe2-cases.md"
# The test modules whose outcomes make a column.
COLUMNS = {
    "values": ("test_reading", "test_training"),
    "gradient as ONNX": ("test_onnx_gradient",),
    "gradient as a net": ("test_net_gradient",),
    "the same on the real Caffe2": ("test_real_caffe2",),
}
HEADER = """# All recorded cases

Nets that ran on the real Caffe2 (PyTorch 1.8.1), what it made of them, and what whileback does.
Values are compared with what it computed, gradients with central differences in float64 where the
net has loops or branches, with its own gradients elsewhere. An empty cell has nothing to compare:
the net was recorded without gradients, or they are sparse, or random. This page is written by
`tools/caffe2_table.py` from the outcomes of the tests in `tests/caffe2/golden`.

"""


class Outcomes:
    """Collects, by case and by test module, what the tests said."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.remarks = exceptions()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test that has a case among its parameters."""
        match = re.search(r"([a-z0-9_]+)\.py::\w+\[(.+)\]$", report.nodeid)
        if match is None or (report.when != "call" and report.passed):
            return
        for case in re.split(r"-(?=\d+$)|(?<=\d)-(?=[a-z])", match[2]):
            self.found[case][match[1]].add(report.outcome)

    def cell(self, case: str, column: str) -> str:
        """Return what a column says of a case."""
        modules = self.found[case]
        outcomes = {each for module in COLUMNS[column] for each in modules[module]} - {"skipped"}
        if not outcomes:
            return ""
        if outcomes != {"passed"}:
            return "WRONG"
        return f"right{self.remarks.get((column, case), '')}"


Remarks = dict[tuple[str, str], str]


def exceptions() -> Remarks:
    """Return with which remark some cases are right."""
    from tests.caffe2.golden.test_net_gradient import WRONG
    from tests.caffe2.golden.test_onnx_gradient import OTHER
    from tests.caffe2.golden.test_reading import OTHER_TYPE

    remarks = {("values", case): f", but {said}" for case, said in OTHER_TYPE.items()}
    for column, known in (("gradient as ONNX", OTHER), ("gradient as a net", WRONG)):
        for case, (blobs, why) in known.items():
            remarks[column, case] = f", but for {', '.join(f'`{b}`' for b in sorted(blobs))}: {why}"
    return remarks


def verdict(meta: dict) -> str:
    """Return what the real Caffe2 made of a case."""
    status = meta["status"]
    if status == "known_wrong":
        verdicts = meta["verdict"]
        blobs = verdicts.items() if isinstance(verdicts, dict) else []
        return "wrong: " + ", ".join(f"`{b}`" for b, said in blobs if said != "right")
    failed = {
        "build_fails": "cannot be built",
        "run_fails": "fails when run",
        "never_terminates": "never ends",
    }
    return failed.get(status, "right")


def main() -> int:
    """Run the tests and write the page; return 1 if something of ours is wrong."""
    from tests.caffe2.golden.cases import cases

    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:xdist", str(TESTS)], plugins=[outcomes])
    rows = [["case", "what it shows", "the original", *COLUMNS]]
    rows.append(["---"] * len(rows[0]))
    said: dict[str, Counter[str]] = {name: Counter() for name in COLUMNS}
    for case in cases():
        cells = {name: outcomes.cell(case.name, name) for name in COLUMNS}
        for name, cell in cells.items():
            said[name][re.split(r"\W", cell)[0]] += 1
        text = case.meta["description"].replace("|", "\\|").replace("<", "&lt;")
        rows.append([f"`{case.name}`", text, verdict(case.meta), *cells.values()])
    summary = "".join(f"* {name}: {total(counts)}\n" for name, counts in said.items())
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    OUTPUT.write_text(f"{HEADER}{summary}\n{table}")
    print(summary)
    return int(any(counts["WRONG"] for counts in said.values()))


def total(counts: Counter[str]) -> str:
    """Return how many cases are right, and how many are not."""
    wrong = f", {counts['WRONG']} WRONG" if counts["WRONG"] else ""
    return f"{counts['right']} of {counts.total() - counts['']} cases right{wrong}"


if __name__ == "__main__":
    sys.exit(main())
