"""The golden cases: nets that ran on the real Caffe2, with what went in and what came out.

`python -m tests.caffe2.golden.cases NAME…` runs cases through the reader and prints each blob that
differs; without names it runs all.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whileback import compile
from whileback.caffe2.reading import TensorSpec, read
from whileback.errors import WhilebackError
from whileback.formats.caffe2.caffe2_pb2 import NetDef

DATA = Path(__file__).parent / "data"
Arrays = dict[str, np.ndarray]
# What blobs were left by a run before the one that was recorded, and are not written again.
LEFT_BEFORE = {"grad_C3_zero_trip_weight_after_real_run": ["w_grad"]}


@dataclass(frozen=True)
class Case:
    """One folder of recorded data; its README tells what each file holds."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def meta(self) -> dict[str, Any]:
        return json.loads((self.folder / "meta.json").read_text())

    @property
    def group(self) -> str:
        return self.meta["group"]

    def net(self, file: str = "net.pb") -> NetDef:
        return NetDef.FromString((self.folder / file).read_bytes())

    def forward_net(self) -> NetDef:
        """The net without its gradient operators."""
        net = self.net()
        del net.op[self.meta["n_forward_ops"] :]
        return net

    def recorded_net(self) -> NetDef:
        """The part of the net that the real Caffe2 could run to its end."""
        failed = self.meta.get("status") in ("run_fails", "never_terminates")
        net = self.forward_net() if failed else self.net()
        del net.external_output[:]
        return net

    @property
    def runs(self) -> int:
        """How many runs were recorded."""
        return len(list(self.folder.glob("fetches_run*.npz"))) or 1

    @property
    def given(self) -> Arrays:
        """What the blobs hold before the first run."""
        left = self.arrays("fetches.npz") if self.name in LEFT_BEFORE else {}
        kept = {name: left[name] for name in LEFT_BEFORE.get(self.name, ())}
        return {**self.arrays("feeds.npz"), **kept}

    def arrays(self, file: str) -> Arrays:
        path = self.folder / file
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=True) as data:
            return {name: _text(data[name]) for name in data}

    @property
    def skipped(self) -> set[str]:
        """Blobs that are random, or were never written."""
        names = self.meta.get("nondeterministic_blobs", [])
        return {*names, *self.meta.get("uninitialized_blobs", [])}


def _text(array: np.ndarray) -> np.ndarray:
    """Return an array of byte strings as one of strings, which the engines take and give."""
    if array.dtype.kind not in "OS":
        return array
    text = [each.decode() if isinstance(each, bytes) else each for each in array.flat]
    return np.array(text, object).reshape(array.shape)


def cases(*groups: str) -> list[Case]:
    """All cases of some groups, or of all."""
    found = [Case(path) for path in sorted(DATA.iterdir()) if path.is_dir()]
    return [case for case in found if not groups or case.group in groups]


def difference(got: np.ndarray | None, expected: np.ndarray) -> str | None:
    """Say how an array differs from the recorded one by more than rounding in float32, or None."""
    if got is None:
        return "is missing"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"is {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
    if expected.dtype.kind not in "fc":
        same = np.array_equal(got, expected)
        return None if same else f"is {got.ravel()[:6]}, not {expected.ravel()[:6]}"
    finite = np.abs(expected[np.isfinite(expected)])
    scale = finite.max() if finite.size else 0.0
    relative = 2e-3 if expected.dtype == np.float16 else 1e-5
    if np.allclose(got, expected, rtol=5 * relative, atol=relative * scale, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        worst = np.nanmax(np.abs(got - expected)) if expected.size else 0
    first = f"{got.ravel()[:6]}, not {expected.ravel()[:6]}"
    return f"differs by {worst:.3g} (largest {scale:.3g}): {first}"


def run_once(case: Case) -> dict[str, str]:
    """Run a case's net through the reader, and return what differs, by blob.

    A net that was run several times is read each time, for what its blobs then hold.
    """
    blobs = case.given
    for number in range(1, case.runs + 1):
        blobs.update(case.arrays(f"feeds_run{number}.npz"))
        reading = read(case.recorded_net(), {n: TensorSpec.of(each) for n, each in blobs.items()})
        model = compile(reading.model)
        results = model({name: blobs[name] for name in model.inputs})
        written = {blob: results[name] for blob, name in reading.outputs.items()}
        blobs.update(written)
        expected = case.arrays(f"fetches_run{number}.npz" if case.runs > 1 else "fetches.npz")
        found = {
            name: difference(blobs.get(name), array)
            for name, array in expected.items()
            if name not in case.skipped
        }
        if any(found.values()):
            break
    return {name: said for name, said in found.items() if said}


def main() -> None:
    names = sys.argv[1:]
    chosen = [case for case in cases() if not names or case.name in names]
    wrong = 0
    for case in chosen:
        try:
            found = run_once(case)
        except WhilebackError as error:
            found = {"error": str(error)}
        wrong += bool(found)
        for blob, text in found.items():
            print(f"{case.name}: {blob}: {text}")
    print(f"{len(chosen) - wrong} of {len(chosen)} cases as recorded")


if __name__ == "__main__":
    main()
