"""`read_data`: examples of which every array fits an input of the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.engines.arguments import Port
from whileback.errors import ArgumentError, nearest
from whileback.graph.shapes import describe
from whileback.signatures import require_types
from whileback.trainer.batches import Arrays
from whileback.trainer.data.classes import require_classes
from whileback.trainer.data.fitting import Constant, Fit, fit, fit_constant
from whileback.trainer.data.sources import Source, Where, open_source
from whileback.training.interface import interface

__all__ = ["Dataset", "read_data"]

Columns = Mapping[str, str | Sequence[str]]


class Dataset(Arrays):
    """Examples by input of a step; what has another type is converted when it is taken.

    Attributes:
        notes: sentences that say what is converted.
        batch_size: the only size of a batch that the model takes, or None.
    """

    def __init__(self, fits: Mapping[str, Fit], constants: Mapping[str, Constant]) -> None:
        super().__init__({name: each.array for name, each in fits.items()})
        self._fits, self._constants = fits, constants
        self.notes = [each.note for each in fits.values() if each.note]
        sizes = (each.batch for each in fits.values())
        self.batch_size = next((size for size in sizes if size is not None), None)

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows of every array, and what is the same in every batch."""
        rows = super().take(indices)
        batch = {name: self._fits[name].converted(rows[name]) for name in rows}
        return batch | {name: each.of(len(indices)) for name, each in self._constants.items()}


def read_data(
    where: Where,
    step: ir.Model,
    columns: Columns | None = None,
    constants: Mapping[str, Any] | None = None,
    axes: Mapping[str, int] | None = None,
) -> Dataset:
    """Return the examples of a file or a folder, checked against the inputs of a step.

    An array goes to the input of its name, one row for each example; others are not read. Arrays
    of .npy and uncompressed .npz files stay on the disk, and so do most of .arrow files.

    Args:
        where: an .npz file, a .parquet, .arrow, .feather or .csv file (with the package pyarrow),
            a folder of .npy files, or of the others as parts of one set, several such paths, or a
            mapping of names to arrays or to .npy files.
        step: what `whileback.training.step` has made.
        columns: by input, what it is called in the data: `{"label": "y"}`. For several columns,
            which become one axis, a list, `"a,b,c"`, or a pattern, `"pixel*"`. The numbers of a
            row of a table fill the axes of an input of fixed sizes.
        constants: by input, what is the same in every batch: an array, or a number, which fills
            an input of several axes.
        axes: by input, the axis along which its examples are, where that is not the first one;
            in the data, it is.

    Raises:
        ArgumentError: an array lacks, or has another type, shape or number of rows; or a label is
            the number of no class.
        FormatError: a file cannot be read.

    >>> import numpy as np, onnx_ir as ir
    >>> from whileback import training
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> step = training.step(model, "mse", "sgd")
    >>> data = read_data({"x": np.ones((8, 1)), "y": np.ones((8, 1))}, step, {"label": "y"})
    >>> len(data), data.take(np.array([0, 1]))["label"].dtype.name, data.notes[0]
    (8, 'float32', "'x' of the data is float64, and becomes float32.")
    """
    require_types(read_data, locals())
    source, columns, constants = open_source(where), columns or {}, constants or {}
    values = {str(v.name): v for v in step.graph.inputs if _is_fed(v, step)}
    axes = _axes(step, values, columns, constants, axes or {})
    fits = {
        name: _fitted(source, columns.get(name, name), value, axes[name])
        for name, value in values.items()
        if name not in constants
    }
    _require_rows(source, fits)
    _require_same_axis({name: Port.of(values[name]) for name in fits}, axes)
    fixed = {n: fit_constant(Port.of(values[n]), each, axes[n]) for n, each in constants.items()}
    return Dataset(fits, fixed)


def _axes(
    step: ir.Model,
    values: Mapping[str, ir.Value],
    columns: Mapping[str, Any],
    constants: Mapping[str, Any],
    axes: Mapping[str, int],
) -> dict[str, int]:
    """Return along which axis of each input examples are; refuse what is no input, and no axis."""
    for name in (*columns, *constants, *axes):
        if name not in values:
            raise ArgumentError(
                f"Step '{step.graph.name}' has no input {name!r}; {nearest(name, values)}"
            )
    for name, axis in axes.items():
        shape = values[name].shape
        if not 0 <= axis < (1 if shape is None else len(shape)):
            raise ArgumentError(f"Input {name!r} is {describe(values[name])}: no axis is {axis}.")
    return dict.fromkeys(values, 0) | dict(axes)


def _is_fed(value: ir.Value, step: ir.Model) -> bool:
    known = str(value.name) in step.graph.initializers
    return not known and value.name != interface(step).learning_rate


def _fitted(source: Source, spec: str | Sequence[str], value: ir.Value, axis: int) -> Fit:
    """Return what an input reads of the data."""
    port = Port.of(value)
    specs = [spec] if isinstance(spec, str) else list(spec)
    names = [name for each in specs for name in _matching(source, each, port)]
    arrays = [source.read(name) for name in names]
    said = f"{', '.join(map(repr, names[:3]))}{', …' if len(names) > 3 else ''} of {source.said}"
    if len(arrays) > 1:
        _require_scalars(said, names, arrays)
        _require_one_kind(source, names, arrays)
    array = arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=1)
    found = fit(port, array, said, len(arrays) > 1 or names[0] in source.flat, axis)
    require_classes(value, found)
    return found


def _require_one_kind(source: Source, names: Sequence[str], arrays: Sequence[np.ndarray]) -> None:
    """Refuse columns of text beside others: together, all of them would be text."""
    texts = [name for name, array in zip(names, arrays, strict=True) if array.dtype.kind in "SUO"]
    if 0 < len(texts) < len(names):
        raise ArgumentError(
            f"{', '.join(map(repr, texts[:3]))}{', …' if len(texts) > 3 else ''} of {source.said} "
            "is text, and the columns beside it are numbers. Leave it out, or write numbers."
        )


def _matching(source: Source, spec: str, port: Port) -> list[str]:
    names = source.matching(spec)
    if not names:
        raise ArgumentError(
            f"{source.said} has no array {spec!r}, which input {port.name!r} {port.text} needs. "
            f"Say which one it is with columns={{{port.name!r}: NAME}} (on the command line "
            f"--input {port.name}=NAME, or --label NAME), or give a constant: "
            f"{nearest(spec, source.columns)}"
        )
    return names


def _require_scalars(said: str, names: Sequence[str], arrays: Sequence[np.ndarray]) -> None:
    for name, array in zip(names, arrays, strict=True):
        if array.shape != arrays[0].shape or array.ndim != 1:
            raise ArgumentError(
                f"{said} make up one input, but {name!r} has shape {list(array.shape)}: several "
                "arrays have one number in each row. Give one array that holds all."
            )


def _require_same_axis(ports: Mapping[str, Port], axes: Mapping[str, int]) -> None:
    """Refuse an input of which another axis is called what examples are along in others."""
    along = {n: port.dims[axes[n]] for n, port in ports.items() if port.dims}
    for name, port in ports.items():
        others = {n: size for n, size in along.items() if n != name and isinstance(size, str)}
        if not port.dims or along[name] in others.values():
            continue
        for axis, size in enumerate(port.dims):
            other = next((each for each in others if others[each] == size), None)
            if other is not None:
                raise ArgumentError(
                    f"Input {name!r} is {port.text}, and examples are along {size!r} in input "
                    f"{other!r}, {ports[other].text}. Say that they are along axis {axis} with "
                    f"axes={{{name!r}: {axis}}} (on the command line --axis {name}={axis})."
                )


def _require_rows(source: Source, fits: Mapping[str, Fit]) -> None:
    """Refuse arrays of different lengths, and no rows at all."""
    rows = {name: len(each.array) for name, each in fits.items()}
    first = next(iter(rows), None)
    if first is None:
        raise ArgumentError(f"Nothing is read of {source.said}: all inputs are constants.")
    for name, count in rows.items():
        if not count:
            raise ArgumentError(f"{fits[name].said} has no rows: each example is one. Give some.")
        if count != rows[first]:
            raise ArgumentError(
                f"{fits[first].said} has {rows[first]} rows, and {fits[name].said} {count}: each "
                "example is one row of every array. Give as many of each."
            )
        size = fits[name].batch
        if size is not None and count % size:
            raise ArgumentError(
                f"Input {name!r} takes batches of {size} and no others, and {fits[name].said} has "
                f"{count} rows, which is no multiple. Leave some out, or export the model with a "
                "first axis of any size."
            )
