"""Mutation testing of the rules: changes them one place at a time, and runs the tests of the rule.

python tools/mutate.py                       a sample of 400 changes, about an hour on one core
python tools/mutate.py --count 50 math/      fewer, of some files only
python tools/mutate.py --write docs/mutation.md

A change that no test notices is printed: either the rule is not tested there, or the change makes
no difference. Tests of `rules/a/b.py` are those in `tests/gradient/rules/a/test_b.py`.
"""

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
RULES = ROOT / "src" / "whileback" / "gradient" / "rules"
TESTS = ROOT / "tests" / "gradient" / "rules"
# Several times what the slowest of the tests takes.
SECONDS = 300

# Operators that a rule may emit instead of others, and still make a valid model.
OTHERS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Max": "Min", "Min": "Max",
    "Greater": "GreaterOrEqual", "GreaterOrEqual": "Greater", "Less": "LessOrEqual",
    "LessOrEqual": "Less", "And": "Or", "Or": "And", "Sin": "Cos", "Cos": "Sin", "Sinh": "Cosh",
    "Cosh": "Sinh", "Exp": "Sin", "Log": "Sqrt", "Sqrt": "Exp", "Neg": "Identity",
    "Abs": "Identity", "Sign": "Identity", "Not": "Identity", "ReduceSum": "ReduceMax",
    "ReduceMean": "ReduceSum", "Floor": "Ceil", "Ceil": "Floor",
}  # fmt: skip
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SIGNS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "+",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """Text in place of the characters `start` to `end` of a file."""

    file: Path
    line: int
    start: int
    end: int
    text: str

    @property
    def source(self) -> str:
        """The file with the change."""
        text = self.file.read_text(encoding="utf-8")
        return text[: self.start] + self.text + text[self.end :]

    def __str__(self) -> str:
        before = self.file.read_text(encoding="utf-8")[self.start : self.end]
        return f"{self.file.relative_to(RULES)}:{self.line}: `{before}` → `{self.text}`"


class _Source:
    """The text of a file, and where the parts of its syntax tree are in it."""

    def __init__(self, file: Path) -> None:
        self.text = file.read_text(encoding="utf-8")
        self.lines = [0]
        for line in self.text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first character of a part, and the one behind it."""
        return (
            self._place(node.lineno, node.col_offset),
            self._place(node.end_lineno, node.end_col_offset),
        )

    def _place(self, line: int, column: int) -> int:
        """Count characters; the tree counts bytes."""
        begin = self.lines[line - 1]
        return begin + len(self.text[begin : self.lines[line]].encode()[:column].decode())


Edit = tuple[int, int, str]


def changes(file: Path) -> Iterator[Change]:
    """Every change that can be made in the functions of a file."""
    source = _Source(file)
    functions = [n for n in ast.walk(ast.parse(source.text)) if isinstance(n, ast.FunctionDef)]
    for node in (n for f in functions for statement in f.body for n in ast.walk(statement)):
        make = EDITS.get(type(node))
        for edit in make(node, source) if make is not None else ():
            yield Change(file, node.lineno, *edit)


def _other_operator(node: ast.Attribute, source: _Source) -> Iterator[Edit]:
    start, end = source.span(node)
    if node.attr in OTHERS and source.text[start:end].startswith("op."):
        yield end - len(node.attr), end, OTHERS[node.attr]


def _other_constant(node: ast.Constant, source: _Source) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield *source.span(node), str(not value)
    elif isinstance(value, int | float):
        yield *source.span(node), repr(value + 1 if isinstance(value, int) else value * 1.5 + 0.25)


def _other_sign(node: ast.BinOp, source: _Source) -> Iterator[Edit]:
    start, end = source.span(node.left)[1], source.span(node.right)[0]
    if type(node.op) in SIGNS and source.text[start:end].strip() in ("+", "-", "*", "/", "//", "%"):
        yield start, end, f" {SIGNS[type(node.op)]} "


def _other_comparison(node: ast.Compare, source: _Source) -> Iterator[Edit]:
    start, end = source.span(node.left)[1], source.span(node.comparators[0])[0]
    sign = source.text[start:end].strip()
    if len(node.ops) == 1 and sign in COMPARISONS:
        yield start, end, f" {COMPARISONS[sign]} "


def _no_negation(node: ast.UnaryOp, source: _Source) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        yield source.span(node)[0], source.span(node.operand)[0], ""


def _no_gradient(node: ast.Return, source: _Source) -> Iterator[Edit]:
    results = node.value.elts if isinstance(node.value, ast.Tuple) else []
    for each in results if len(results) > 1 else ():
        if not isinstance(each, ast.Constant | ast.Starred):
            yield *source.span(each), "None"


EDITS = {
    ast.Attribute: _other_operator,
    ast.BinOp: _other_sign,
    ast.Compare: _other_comparison,
    ast.Constant: _other_constant,
    ast.Return: _no_gradient,
    ast.UnaryOp: _no_negation,
}


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other text."""

    def __init__(self, change: Change) -> None:
        parts = change.file.relative_to(ROOT / "src").with_suffix("").parts
        self.name, self.change = ".".join(parts), change

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Find that module only."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.change.file, loader=self)

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed text, which keeps its docstrings and its file."""
        exec(compile(self.change.source, str(self.change.file), "exec"), module.__dict__)


def tests_of(file: Path) -> Path:
    """Return the tests of the rules in a file."""
    place = file.relative_to(RULES)
    return TESTS / place.parent / f"test_{place.name}"


def is_noticed(change: Change | None, tests: Path) -> bool:
    """Whether the tests fail, or take too long, in a process of their own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(SECONDS)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if change is not None:
            sys.meta_path.insert(0, _Changed(change))
        import pytest

        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", str(tests)]) != 0))
    return os.waitpid(child, 0)[1] != 0


def sample(folders: Sequence[str], count: int, seed: int) -> list[Change]:
    """Return some of the changes that can be made, in the order of files and lines."""
    files = [
        file
        for file in sorted(RULES.rglob("*.py"))
        if tests_of(file).exists()
        and any(str(file.relative_to(RULES)).startswith(each) for each in folders or [""])
    ]
    known = list(dict.fromkeys(change for file in files for change in changes(file)))
    random.Random(seed).shuffle(known)
    return sorted(known[:count], key=lambda change: (change.file, change.start))


def report(made: Sequence[Change], survivors: Sequence[Change]) -> str:
    """Return the page for the docs."""
    lines = [
        "# Mutation testing of the rules",
        "",
        "`python tools/mutate.py --write docs/mutation.md` made this page. It changes the rules in",
        "one place at a time (another operator, number, sign or comparison; a gradient left out)",
        "and runs the tests of the rule. Noticed were "
        f"{len(made) - len(survivors)} of {len(made)} changes.",
        "",
        "| Rules | changes | noticed |",
        "|---|---|---|",
    ]
    for file in dict.fromkeys(change.file for change in made):
        total = sum(change.file == file for change in made)
        left = sum(change.file == file for change in survivors)
        lines.append(f"| {file.relative_to(RULES)} | {total} | {total - left} |")
    lines += ["", "## Not noticed", "", *(f"* {change}" for change in survivors)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make changes, print those that no test notices, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="such as math/ or nn/conv.py")
    parser.add_argument("--count", type=int, default=400, help="how many changes (default: 400)")
    parser.add_argument("--seed", type=int, default=0, help="chooses them (default: 0)")
    parser.add_argument("--minutes", type=float, default=120, help="stop after (default: 120)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write a report")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    # Only what no change can touch is imported before the processes part.
    for name in ("numpy", "onnx", "onnx_ir", "onnxruntime", "onnx_shape_inference", "hypothesis"):
        importlib.import_module(name)
    chosen, survivors, made = sample(given.files, given.count, given.seed), [], []
    for file in dict.fromkeys(change.file for change in chosen):
        if is_noticed(None, tests_of(file)):
            sys.exit(f"{tests_of(file)} fails without any change")
    until = time.monotonic() + 60 * given.minutes
    for number, change in enumerate(chosen, start=1):
        if time.monotonic() > until:
            print(f"stopped after {given.minutes} minutes, {len(made)} changes made")
            break
        made.append(change)
        if not is_noticed(change, tests_of(change.file)):
            survivors.append(change)
            print(f"{number}/{len(chosen)} {change}", flush=True)
    print(f"{len(made) - len(survivors)} of {len(made)} changes were noticed")
    if given.write:
        given.write.write_text(report(made, survivors), encoding="utf-8")


if __name__ == "__main__":
    main()
