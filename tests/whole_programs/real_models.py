"""Judges the gradients of a model file; runs in a process of its own, which may crash."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import whileback
from whileback.checking.check import check
from whileback.checking.report import Report

Inputs = Mapping[str, Any]


def reports(
    model: Path, of: Sequence[str], wrt: Sequence[str], cases: Sequence[Inputs], folder: Path
) -> list[Report]:
    """Return a report for each case; one gradient file, written once, serves all of them."""
    apart = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=apart) as process:
        return process.submit(_reports, model, of, wrt, cases, folder).result()


def _reports(
    model: Path, of: Sequence[str], wrt: Sequence[str], cases: Sequence[Inputs], folder: Path
) -> list[Report]:
    file = folder / "vjp.onnx"
    whileback.save(whileback.vjp(model, of=of, wrt=wrt), file, base_dir=model.parent)
    own, pullback = whileback.load(model), whileback.load(file)
    return [check(own, of, wrt, inputs, gradient_model=pullback) for inputs in cases]
