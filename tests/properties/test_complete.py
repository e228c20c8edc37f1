"""Every rule is judged by a property on random shapes, or has nothing to do with shapes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from whileback.gradient.catalogue import catalogue

# Operators that neither broadcast nor pad, and have no axes and no indices.
OF_ELEMENTS = {
    "Dropout",
    "Optional",
    "OptionalGetElement",
    "com.microsoft::QLinearLeakyRelu",
    "com.microsoft::QLinearSigmoid",
}
# The domains whose operators ONNX and ONNX Runtime have rules for; the rest is expansions.
DOMAINS = ("", "com.microsoft")


def words(file: Path) -> Iterator[str]:
    """Yield what could be the name of an operator in the texts of a file but its docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    docs = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs:
            yield from re.findall(r"[A-Z]\w+", node.value)


def test_rules_and_properties() -> None:
    files = sorted(set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)})
    judged = {word for file in files for word in words(file)}
    rules = {
        each.operator
        for each in catalogue()
        if each.status == "rule" or (each.status == "expansion" and "::" not in each.operator)
    }
    rules = {name for name in rules if name.rpartition("::")[0] in DOMAINS}
    missing = {name for name in rules if name.rpartition("::")[2] not in judged}
    assert missing == OF_ELEMENTS, "they need a property here, or to be listed as OF_ELEMENTS"
