"""`write_artifacts`: a step as files, for programs in other languages."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from whileback.errors import FormatError
from whileback.formats import save
from whileback.formats.atomic import atomic_files, require_folder
from whileback.formats.files import errors_name
from whileback.gradient.transform import names
from whileback.graph.copying import clone
from whileback.signatures import require_types
from whileback.trainer.trainer import Trainer
from whileback.training.interface import Interface, interface

__all__ = ["write_artifacts"]

STEP, EVALUATION, STATE = "training_step.onnx", "eval.onnx", "checkpoint.safetensors"
_SAID, _README = "interface.json", "README.md"

_TEXT = """# A training step

Stock ONNX Runtime makes it, in any language, with nothing else installed.

| File | What it is |
|---|---|
| `training_step.onnx` | one step: parameters, state and a batch in, losses and new parameters out |
| `eval.onnx` | losses and the model's outputs for given parameters, as in inference |
| `checkpoint.safetensors` | the first values of parameters and state, one tensor for each input |
| `interface.json` | what each input and output is |

A step:

1. Feed the inputs of role {feeds}; those of a batch are the model's and its labels.
2. Feed the inputs of role "parameter", "statistic" and "state": in the first step what the
   checkpoint holds.
3. Run the model. `{loss}` is the loss before the step.
4. Each input of step 2 has a field `next`: the output of that name is its value in the next step.

To evaluate, feed `eval.onnx` a batch, its labels, and the parameters and statistics under their
names. `whileback.training.export` puts parameters back into the original model.
"""


def write_artifacts(
    step: ir.Model,
    evaluation: ir.Model,
    folder: str | os.PathLike[str],
    *,
    engine: str = "onnxruntime",
    overwrite: bool = False,
) -> None:
    """Write a step for programs in other languages, with what they need to know of it.

    The files are `training_step.onnx`, `eval.onnx`, `checkpoint.safetensors` with the first values
    of all that is kept, `interface.json` and `README.md`.

    Args:
        step: what `whileback.training.step` has made.
        evaluation: what `whileback.training.evaluation` has made of it.
        folder: is made if its parent exists.
        engine: which has to accept the step.
        overwrite: whether files of these names may be replaced.

    Raises:
        FormatError: a file is in the way, or cannot be written.
        EngineError: the engine refuses the step.
    """
    require_types(write_artifacts, locals())
    folder = Path(folder)
    require_folder(folder)
    trainer = Trainer(step, engine, evaluation=evaluation)
    with errors_name(folder):
        folder.mkdir(exist_ok=True)
    for name in (STEP, EVALUATION, STATE, _SAID, _README):
        if (folder / name).exists() and not overwrite:
            raise FormatError(
                f"'{folder / name}' exists; choose another folder, or replace it with --force "
                "(in Python overwrite=True)"
            )
    known = interface(step)
    for model, name in ((step, STEP), (evaluation, EVALUATION)):
        bare = _without_defaults(model, known)
        save(bare, folder / name, external_data="copy", overwrite=overwrite)
    trainer.save(folder / STATE, overwrite=overwrite)
    said = _described(step, evaluation, known)
    roles = {port["role"] for port in said["step"]["inputs"] if "next" not in port}
    feeds = " and ".join(json.dumps(role) for role in sorted(roles))
    with errors_name(folder), atomic_files() as open_file:
        open_file(folder / _SAID).write(json.dumps(said, indent=1).encode())
        open_file(folder / _README).write(_TEXT.format(loss=known.loss, feeds=feeds).encode())


def _without_defaults(model: ir.Model, known: Interface) -> ir.Model:
    """Return a model that has to be fed what is kept, which the checkpoint holds.

    ONNX Runtime for JavaScript feeds no input that has a default, and does not say so.
    """
    result = clone(model)
    parts = [part.name for part in known.flat]
    for name in (*known.parameters, *known.statistics, *known.state, *parts):
        if (value := result.graph.initializers.pop(name, None)) is not None:
            value.const_value = None
    return result


def _described(step: ir.Model, evaluation: ir.Model, known: Interface) -> dict[str, Any]:
    return {
        "losses": dict(known.losses),
        "loss": known.loss,
        "accumulate": known.accumulate,
        "parameters": [{"name": p.name, "shape": p.shape, "offset": p.offset} for p in known.flat],
        "step": {"file": STEP, **_ports(step, known, names(step))},
        "evaluation": {"file": EVALUATION, **_ports(evaluation, known, {})},
        "checkpoint": {"file": STATE},
    }


def _ports(model: ir.Model, known: Interface, following: Mapping[str, str]) -> dict[str, Any]:
    graph = model.graph
    inputs = []
    for value in graph.inputs:
        name = str(value.name)
        port = {**_port(value), "role": _role(name, known, name in graph.initializers)}
        inputs.append(port | ({"next": following[name]} if name in following else {}))
    sources = {new: old for old, new in following.items()}
    outputs = []
    for value in graph.outputs:
        name = str(value.name)
        role = "loss" if name == known.loss or name in known.losses else "output"
        role = "next" if name in sources else role
        outputs.append({**_port(value), "role": role} | _of(name, sources))
    return {"inputs": inputs, "outputs": outputs}


def _of(name: str, sources: Mapping[str, str]) -> dict[str, str]:
    return {"of": sources[name]} if name in sources else {}


def _role(name: str, known: Interface, has_default: bool) -> str:
    roles = dict.fromkeys(known.parameters, "parameter")
    roles |= dict.fromkeys(known.statistics, "statistic")
    roles |= dict.fromkeys(known.state, "state")
    roles |= {known.learning_rate: "learning_rate"}
    roles |= {known.seed: "seed"} if known.seed else {}
    parts = dict.fromkeys((part.name for part in known.flat), "parameter")
    return (parts | roles).get(name, "optional" if has_default else "batch")


def _port(value: ir.Value) -> dict[str, Any]:
    dims = None
    if value.shape is not None:
        dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    kind = None if value.dtype is None else value.dtype.name
    return {"name": str(value.name), "type": kind, "shape": dims}
