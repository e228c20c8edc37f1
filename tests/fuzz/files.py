"""One damaged file: everything that can be done with it ends in a result or in a clear error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import onnx
import onnx_ir as ir
from tests.fuzz.mutations import mutate_bytes, mutate_message, mutate_text
from tests.fuzz.outcome import Outcome, Trial
from tests.fuzz.seeds import Seed, step

import whileback
from whileback import caffe2, training
from whileback.cli.arrays import read_inputs
from whileback.formats import to_proto

__all__ = ["judge_file"]

_SHARES = {"onnx": 12, "caffe2": 5, "data": 3}


def judge_file(seeds: dict[str, list[Seed]], random: Random, folder: Path, note: Path) -> Outcome:
    """Damage one of the files, leave it in `folder`, and call everything that reads it."""
    (family,) = random.choices(list(_SHARES), list(_SHARES.values()))
    seed = random.choice(seeds[family])
    for name, data in seed.files.items():
        (folder / name).write_bytes(data if name != seed.file else _damaged(seed, random))
    trial = Trial(note)
    path = folder / (seed.main or seed.file)
    calls: dict[str, Callable[[Trial, Seed, Path, Random], None]] = {
        "onnx": _onnx,
        "caffe2": _caffe2,
        "data": _data,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls[family](trial, seed, path, random)
    return trial.outcome


def _damaged(seed: Seed, random: Random) -> bytes:
    data = seed.files[seed.file]
    if seed.message is not None and random.random() < 0.7:
        return mutate_message(seed.message.FromString(data), random)
    if seed.file.endswith((".txt", ".pbtxt", ".csv")):
        return mutate_text(data, random)
    return mutate_bytes(data, random)


def _onnx(trial: Trial, seed: Seed, path: Path, random: Random) -> None:
    model = trial.attempt("load", whileback.load, path)
    if model is None:
        return
    _looked_at(trial, model, random)
    if seed.message is not None:
        original = ir.from_proto(onnx.ModelProto.FromString(seed.files.get("m.onnx", b"")))
        if not seed.name.startswith("external"):
            trial.attempt("diff", lambda: str(whileback.diff(original, model)))
    _rewritten(trial, "save", model, path)
    _derived(trial, model, path, random)


def _looked_at(trial: Trial, model: ir.Model, random: Random) -> None:
    trial.attempt("show", whileback.show, model)
    trial.attempt("names", whileback.names, model)
    proto = trial.attempt("to_proto", to_proto, model)
    if proto is not None and random.random() < 0.2:
        trial.attempt("show ModelProto", whileback.show, proto)


def _rewritten(trial: Trial, call: str, model: ir.Model, path: Path) -> None:
    """Write a model, and read what was written: what whileback writes, it reads."""
    for suffix in (".onnx", ".onnx.txt"):
        written = path.with_name(f"{call}{suffix}")
        trial.attempt(f"{call} {suffix}", whileback.save, model, written)
        if written.exists():
            again = trial.attempt(f"{call} {suffix}, load", whileback.load, written)
            if again is None and trial.outcome.calls[f"{call} {suffix}, load"] != "finding":
                trial.outcome.add(f"{call} {suffix}", "what was written cannot be read")


def _derived(trial: Trial, model: ir.Model, path: Path, random: Random) -> None:
    of, wrt = _targets(model, random)
    vjp = trial.attempt("vjp", whileback.vjp, model, of, wrt)
    trial.attempt("jvp", whileback.jvp, model, of, wrt)
    kinds: dict[str, Callable[[], Any]] = {
        "gradient": lambda: whileback.gradient(model, of, wrt, reduce="sum"),
        "gradient, recompute": lambda: whileback.vjp(model, of, wrt, memory="recompute"),
        "gradient, checkpoint": lambda: whileback.vjp(model, of, wrt, memory="checkpoint"),
        "straight-through": lambda: whileback.vjp(model, of, wrt, quantized="straight-through"),
        "truncate": lambda: whileback.vjp(model, of, wrt, truncate=2),
        "hvp": lambda: whileback.hvp(model, of, wrt, reduce="sum"),
        "jacobian": lambda: whileback.jacobian(model, of, wrt),
        "hessian": lambda: whileback.hessian(model, of, wrt, reduce="sum"),
        "step": lambda: training.step(model, "mse", "adam"),
        "step, flat": lambda: training.step(model, "cross-entropy", "sgd", flat=True, dropout=True),
        "step, float16": lambda: training.step(model, "mse", "adamw", precision="float16"),
        "evaluation": lambda: _evaluation(model),
        "lora": lambda: training.lora(model, "*"),
        "opset": lambda: whileback.vjp(model, of, wrt, opset=random.choice((7, 13, 18))),
    }
    for call in random.sample(list(kinds), 3):
        trial.attempt(call, kinds[call])
    if vjp is not None:
        _rewritten(trial, "vjp", vjp, path)
        if random.random() < 0.5:
            _checked(trial, model, of, wrt)


def _evaluation(model: ir.Model) -> ir.Model:
    return training.evaluation(model, "mse", training.step(model, "mse", "sgd"))


def _targets(model: ir.Model, random: Random) -> tuple[list[str], list[str]]:
    """Return what to differentiate and with respect to what: any names, mostly of floats."""
    graph = model.graph
    values = [*graph.inputs, *graph.initializers.values()]
    floats = [
        value for value in values if value.dtype is not None and value.dtype.is_floating_point()
    ]
    if not floats or random.random() < 0.1:
        floats = values
    wrt = [str(value.name) for value in floats]
    of = [str(value.name) for value in graph.outputs] or ["y"]
    return [random.choice(of)], random.sample(wrt, min(len(wrt), random.randint(1, 3))) or ["x"]


def _checked(trial: Trial, model: ir.Model, of: list[str], wrt: list[str]) -> None:
    """Compare gradients with finite differences, if ONNX says that the model is valid."""
    trial.attempt("checker", lambda: None)
    try:
        onnx.checker.check_model(to_proto(model), full_check=True)
    except Exception:
        return
    report = trial.attempt("check", whileback.check, model, of, wrt, elements=16)
    if report is not None and not report.ok:
        trial.outcome.add("check", f"of {of}, wrt {wrt}:\n{report}")


def _caffe2(trial: Trial, seed: Seed, path: Path, random: Random) -> None:
    if path.name.startswith("blob"):
        trial.attempt("load_blobs", caffe2.load_blobs, path)
        trial.attempt("initial_blobs", caffe2.initial_blobs, path)
        return
    net = trial.attempt("load", caffe2.load, path)
    init = [path.with_name("init.pb")] if "init.pb" in seed.files else []
    model = trial.attempt("convert", caffe2.convert, path, init)
    if model is not None:
        own = trial.attempt("load model", whileback.load, _saved(model, path))
        if own is not None:
            trial.attempt("show", whileback.show, own)
            of, wrt = _targets(own, random)
            trial.attempt("vjp", whileback.vjp, own, of, wrt)
    if net is None:
        return
    for name in ("again.pb", "again.pbtxt"):
        trial.attempt(f"save {name}", caffe2.save, net, path.with_name(name))
    blobs = sorted({name for op in net.op for name in op.output}) or ["y"]
    gradient = [random.choice(blobs)]
    trial.attempt("add_gradient_operators", caffe2.add_gradient_operators, net, gradient)
    trial.attempt("load_plan", caffe2.load_plan, path)


def _saved(model: onnx.ModelProto, path: Path) -> Path:
    written = path.with_name("converted.onnx")
    whileback.save(model, written)
    return written


def _data(trial: Trial, seed: Seed, path: Path, random: Random) -> None:
    if path.suffix == ".safetensors":
        trial.attempt("read_checkpoint", training.read_checkpoint, path)
        trial.attempt("read_parameters", training.read_parameters, path)
        return
    columns = {"x": "x*"} if path.suffix == ".csv" else {}
    where = {"x": path, "label": path} if path.suffix == ".npy" else path
    found = trial.attempt("read_data", training.read_data, where, step(), columns)
    if found is not None:
        trial.attempt("take", lambda: found.take(range(min(len(found), 4))))
    if path.suffix == ".npy":
        trial.attempt("read_inputs", read_inputs, [f"x={path}"])
