"""The folder of a run: beside its checkpoints the model, and what the run is made of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import onnx_ir as ir

import whileback
from whileback.cli.training.recipe import Recipe
from whileback.errors import ArgumentError, FormatError
from whileback.formats.atomic import atomic_files, require_folder
from whileback.formats.data_layout import Progress
from whileback.formats.files import errors_name
from whileback.trainer.run import BEST, LAST, LOG

__all__ = ["RunFolder", "option"]

_SAID, _MODEL = "run.json", "model.onnx"
_VERSION = 1
# What belongs to a run, and is removed for another one, what says that it is one last.
_OWN = (_MODEL, f"{_MODEL}.data", LAST, BEST, LOG, "events.out.tfevents.*", _SAID)


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run; `Run` writes checkpoints and logs into it."""

    path: Path

    @property
    def is_begun(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / _SAID).exists()

    @property
    def goes_on(self) -> bool:
        """Whether there is all that a run needs to go on; killed as it began, it begins again."""
        return self.is_begun and (self.path / _MODEL).exists()

    def require_free(self, resume: bool, force: bool) -> None:
        """Refuse a folder that a run cannot be begun in, or gone on with.

        Raises: FormatError.
        """
        path = self.path
        require_folder(path)
        with errors_name(path):
            if self.is_begun and not (resume or force):
                raise FormatError(
                    "holds a run; go on with --resume, replace it with --force, or name another "
                    "folder"
                )
            left = [file for file in path.glob("*") if file.suffix != ".tmp"]
            if not self.is_begun and left:
                raise FormatError("holds other files, and no run; name a new folder")

    def begin(
        self,
        model: ir.Model,
        file: Path,
        recipe: Recipe,
        data: dict[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Remove what an earlier run has left, and write down what this one is made of."""
        said = {
            "version": _VERSION,
            "whileback": whileback.__version__,
            "model": str(file),
            "digest": _digest(file),
            "recipe": asdict(recipe),
            "data": data,
        }
        with errors_name(self.path):
            self.path.mkdir(exist_ok=True)
            for pattern in _OWN:
                for left in [*self.path.glob(pattern), *self.path.glob(f".{pattern}.*.tmp")]:
                    left.unlink()
            with atomic_files(durable=True) as open_file:
                open_file(self.path / _SAID).write(json.dumps(said, indent=1).encode())
        whileback.save(model, self.path / _MODEL, external_data="copy", progress=progress)

    def model(self) -> ir.Model:
        """Return the model as it was when the run began."""
        return whileback.load(self.path / _MODEL)

    def recipe(self) -> Recipe:
        """Return what the run was made of. Raises: FormatError if it is no run."""
        said = self._said()["recipe"]
        return Recipe(**said)

    def require_same(self, file: Path, recipe: Recipe) -> None:
        """Refuse to go on with other settings than the run was begun with, epochs aside.

        Raises: ArgumentError, which names the first of them.
        """
        begun = self.recipe()
        for each in fields(Recipe):
            old, new = getattr(begun, each.name), getattr(recipe, each.name)
            if old != new and each.name != "epochs":
                raise ArgumentError(
                    f"'{self.path}' was begun with {option(each.name, old)}, but now it is "
                    f"{option(each.name, new)}. Go on with the same, or begin another run."
                )
        if file.exists() and _digest(file) != self._said()["digest"]:
            raise ArgumentError(
                f"'{file}' is not the model that '{self.path}' was begun with: its content is "
                "another one. Give that, or begin another run."
            )

    def checkpoint(self, best: bool | None) -> Path:
        """Return the best or the last checkpoint; None for the best one if there is one.

        Raises: FormatError if there is none.
        """
        self._said()
        names = (BEST, LAST) if best is None else (BEST,) if best else (LAST,)
        for name in names:
            if (self.path / name).exists():
                return self.path / name
        reason = "no epoch has ended; go on with --resume"
        if best:
            reason = "no epoch was evaluated; take --last, or train with --eval"
        raise FormatError(f"'{self.path}' has no '{names[-1]}': {reason}")

    def _said(self) -> dict[str, Any]:
        """Return what the folder says of the run."""
        with errors_name(self.path):
            if not self.is_begun:
                raise FormatError("holds no run; give the folder of --out of whileback train")
        with errors_name(self.path / _SAID):
            try:
                said = json.loads((self.path / _SAID).read_bytes())
            except ValueError as error:
                raise FormatError(f"is damaged ({error}); begin another run") from error
            names = {each.name for each in fields(Recipe)}
            known = isinstance(said, dict) and said.get("version") == _VERSION
            if not known or set(said.get("recipe", ())) != names:
                raise FormatError("is of another version of whileback; take the one that wrote it")
        result: dict[str, Any] = said
        return result


def option(name: str, value: Any) -> str:
    """Return an option as it is said on the command line."""
    dashed = {"learning_rate": "lr"}.get(name, name.replace("_", "-"))
    if value is None or value == []:
        return f"no --{dashed}"
    return f"--{dashed} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _digest(file: Path) -> str:
    with errors_name(file), file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
