"""The same call writes the same bytes, whatever the seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, warnings
import onnx_ir as ir
from tests.golden.models import MODELS
from tests.judge import parse
from whileback.gradient import vjp

warnings.simplefilter("ignore")
for name, (text, of, wrt) in MODELS.items():
    first = vjp(parse(text), of, wrt)
    gradients = [value.name for value in first.graph.outputs[-len(wrt):]]
    for model in (first, vjp(first, gradients, wrt)):
        data = ir.to_proto(model).SerializeToString(deterministic=True)
        print(name, hashlib.sha256(data).hexdigest())
"""


def test_bytes_do_not_depend_on_hashes() -> None:
    runs = []
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        runs.append(run.stdout.splitlines())
    assert len(runs[0]) > 30
    assert runs[0] == runs[1] == runs[2]
