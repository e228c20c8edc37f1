"""Runs ONNX's own node tests on the engine, by ONNX's own runner of backend tests.

`python -m tests.engines.xla.nodes [PATTERN]` prints what each of them gave.
"""

from __future__ import annotations

import logging
import re
import sys
import unittest
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

from whileback.engines import Compiled, compile

__all__ = ["XlaBackend", "main", "node_tests"]


class _Prepared(BackendRep):
    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[Any, ...]:
        """Run on inputs in order; the runner has lists and None for sequences and optionals."""
        return tuple(
            self._compiled(dict(zip(self._compiled.inputs, inputs, strict=False))).values()
        )


class XlaBackend(Backend):
    """The engine as ONNX's runner of backend tests knows them."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> BackendRep:
        return _Prepared(compile(model, engine="xla"))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def node_tests(pattern: str = "") -> list[unittest.TestCase]:
    """Return the tests of nodes on the CPU whose names match."""
    cases = BackendTest(XlaBackend, __name__).include(f"{pattern}.*_cpu").test_cases
    return [
        case(name)
        for case in cases.values()
        if "NodeModel" in case.__name__
        for name in unittest.TestLoader().getTestCaseNames(case)
        if re.search(pattern, name) and name.endswith("_cpu")
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the tests; print those that fail, and how many there are."""
    logging.disable()
    warnings.simplefilter("ignore")
    failed = 0
    tests = node_tests(*arguments)
    for test in tests:
        result = unittest.TestResult()
        with np.errstate(all="ignore"):
            test.run(result)
        for _, text in (*result.errors, *result.failures):
            failed += 1
            print(test._testMethodName, "|", text.strip().splitlines()[-1][:300], flush=True)
    print(f"{len(tests)} tests, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
