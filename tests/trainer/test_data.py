"""Examples from files: what is read, and what is refused before the first step."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.judge import parse

from whileback import training
from whileback.errors import ArgumentError, FormatError
from whileback.trainer.data import read_data

X = np.random.default_rng(0).normal(size=(6, 2, 2)).astype("f")
Y = np.array([0, 1, 2, 0, 1, 2])
EVERY = np.arange(6)


@cache
def step() -> ir.Model:
    """A classifier of three classes, of [2,2] numbers."""
    return made("""(float[N,2,2] x) => (float[N,3] z) <float[4,3] w = {1,0,0,0,1,0,0,0,1,1,1,1}> {
        rows = Flatten(x)
        z = MatMul(rows, w)
    }""")


def made(text: str, loss: str = "cross-entropy") -> ir.Model:
    return training.step(parse(text), loss, "sgd")


def table() -> pa.Table:
    flat = X.reshape(6, 4)
    inner = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 2)
    columns = {
        "nested": pa.FixedSizeListArray.from_arrays(inner, 2),
        "fixed": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4),
        "lists": pa.array(flat.tolist(), pa.list_(pa.float32())),
        "y": Y,
        "named": pa.array(["a", "b", None, "a", "b", "c"]),
    }
    return pa.table(columns | {f"p{i}": flat[:, i] for i in range(4)})


def write(path: Path) -> Path:
    """Write X and Y in the way that the name of a file stands for."""
    if path.suffix == ".npz":
        (np.savez_compressed if "small" in path.name else np.savez)(path, x=X, y=Y)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table(), path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table().select(["y", "p0", "p1", "p2", "p3"]), path)
    elif path.suffix in (".arrow", ".feather"):
        write_arrow = pa.ipc.new_stream if path.suffix == ".arrow" else pa.ipc.new_file
        with write_arrow(path, table().schema) as writer:
            writer.write_table(table())
    else:
        path.mkdir()
        np.save(path / "x.npy", X)
        np.save(path / "y.npy", Y)
    return path


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("d.npz", "x"),
        ("small.npz", "x"),
        ("folder", "x"),
        ("d.parquet", "nested"),
        ("d.parquet", "fixed"),
        ("d.parquet", "lists"),
        ("d.arrow", "fixed"),
        ("d.feather", "p0,p1,p2,p3"),
        ("d.csv", "p*"),
    ],
)
def test_every_format_gives_the_same(name: str, x: str, tmp_path: Path) -> None:
    data = read_data(write(tmp_path / name), step(), {"x": x, "label": "y"})
    assert len(data) == 6
    batch = data.take(np.array([3, 1]))
    np.testing.assert_array_equal(batch["x"], X[[3, 1]])
    np.testing.assert_array_equal(batch["label"], Y[[3, 1]])
    assert {each.dtype.name for each in batch.values()} == {"float32", "int64"}


def test_a_file_for_each_array(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder")
    files = {"x": folder / "x.npy", "label": folder / "y.npy"}
    np.testing.assert_array_equal(read_data(files, step()).take(EVERY)["x"], X)
    both = read_data(list(files.values()), step(), {"label": "y"})
    np.testing.assert_array_equal(both.take(EVERY)["label"], Y)


def test_parts_of_one_set(tmp_path: Path) -> None:
    for part in range(3):
        rows = slice(2 * part, 2 * part + 2)
        pa.parquet.write_table(table().slice(2 * part, 2), tmp_path / f"part-{part}.parquet")
        (tmp_path / "n").mkdir(exist_ok=True)
        np.savez(tmp_path / "n" / f"{part}.npz", nested=X[rows], y=Y[rows])
    for folder in (tmp_path, tmp_path / "n"):
        data = read_data(folder, step(), {"x": "nested", "label": "y"})
        np.testing.assert_array_equal(data.take(EVERY)["x"], X)
    np.savez(tmp_path / "n" / "3.npz", nested=X[:, :1], y=Y)
    with pytest.raises(
        ArgumentError, match=r"'nested' is float32 \[2, 2\] in '.*0.npz', and float32 "
    ):
        read_data(tmp_path / "n", step(), {"x": "nested", "label": "y"})
    np.savez(tmp_path / "n" / "3.npz", nested=X)
    with pytest.raises(ArgumentError, match=r"0.npz' has 'y', and '.*3.npz' has not: files of one"):
        read_data(tmp_path / "n", step(), {"x": "nested", "label": "y"})


def test_arrays_stay_on_the_disk(tmp_path: Path) -> None:
    """What is in an uncompressed archive is read at its place."""
    data = read_data(write(tmp_path / "d.npz"), step(), {"label": "y"})
    raw = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "d.npz").write_bytes(raw.replace(X.tobytes(), np.zeros_like(X).tobytes()))
    assert not data.take(EVERY)["x"].any()


def test_what_is_converted_is_said_once() -> None:
    data = read_data({"x": X.astype("d"), "label": Y.astype("u1")}, step())
    assert data.notes == [
        "'x' of the data is float64, and becomes float32.",
        "'label' of the data is uint8, and becomes int64.",
    ]
    np.testing.assert_array_equal(data.take(EVERY)["x"], X)
    pixels = read_data({"x": (X > 0).astype("u1"), "label": Y}, step())
    assert pixels.notes[0].endswith("becomes float32 as it is: nothing is scaled.")


def test_constants_are_in_every_batch() -> None:
    scaled = made("""(float[N,3] x, float s) => (float[N,3] z) <float[3] w = {1,1,1}> {
        a = Mul(x, w)
        z = Mul(a, s)
    }""")
    data = read_data({"x": np.ones((6, 3), "f"), "label": Y}, scaled, constants={"s": 2.0})
    assert [*data.take(EVERY)] == ["x", "label", "s"]
    assert data.take(EVERY)["s"].tolist() == 2


RECURRENT = """(float[T,N,3] x, float[2,N,3] s) => (float[N,3] z) <float[3] w = {1,1,1}> {
    first = Constant<value_ints = [0]>()
    r = ReduceSum<keepdims = 0>(x, first)
    q = ReduceSum<keepdims = 0>(s, first)
    a = Add(r, q)
    z = Mul(a, w)
}"""


def test_examples_along_other_axes() -> None:
    """In the data they are along the first one; a number fills an input for any of them."""
    x = np.arange(6 * 4 * 3, dtype="f").reshape(6, 4, 3)
    axes = {"x": 1, "s": 1}
    data = read_data({"x": x, "label": Y}, made(RECURRENT), None, {"s": 0.5}, axes)
    batch = data.take(np.array([4, 0, 5]))
    np.testing.assert_array_equal(batch["x"], x[[4, 0, 5]].transpose(1, 0, 2))
    np.testing.assert_array_equal(batch["s"], np.full((2, 3, 3), 0.5, "f"))
    assert batch["x"].flags.c_contiguous and batch["s"].dtype == np.float32


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (
            {"s": np.zeros((6, 2, 3), "f")},
            {},
            "Input 's' is FLOAT[2,N,3], and examples are along 'N' in input 'x', FLOAT[T,N,3]. Say "
            "that they are along axis 1 with axes={'s': 1} (on the command line --axis s=1).",
        ),
        (
            {"s": np.zeros((6, 7, 3), "f")},
            {"axes": {"s": 2}},
            "'s' of the data has shape [6, 7, 3], but input 's' is FLOAT[2,N,3], whose axis 2 is "
            "that of the examples. If axis 0 is, say so with axes={'s': 0} (on the command line "
            "--axis s=0).",
        ),
        (
            {"x": np.zeros((6, 4, 3), "f")},
            {"constants": {"s": 0}, "axes": {"s": 1, "x": 0}},
            "Input 'x' is FLOAT[T,N,3], and examples are along 'N' in input 'label', INT64[N]. Say "
            "that they are along axis 1 with axes={'x': 1} (on the command line --axis x=1).",
        ),
        (
            {},
            {"constants": {"s": 0}},
            "Input 's' is FLOAT[2,N,3], and 0 cannot fill it: other sizes than that of axis 0, "
            "along which examples are, are not known. Give an array, or another axis (on the "
            "command line --axis s=AXIS).",
        ),
        (
            {},
            {"constants": {"s": 0}, "axes": {"s": 3}},
            "Input 's' is FLOAT[2,N,3]: no axis is 3.",
        ),
    ],
)
def test_axes_that_do_not_fit(data: Any, options: Any, message: str) -> None:
    arrays = {"x": np.zeros((6, 4, 3), "f"), "label": Y, **data}
    options = {**options, "axes": {"x": 1, **options.get("axes", {})}}
    with pytest.raises(ArgumentError) as caught:
        read_data(arrays, made(RECURRENT), **options)
    assert str(caught.value) == message


def test_batches_of_one_size() -> None:
    text = "(float[2,3] x) => (float[2,3] z) <float[3] w = {1,1,1}> { z = Mul(x, w) }"
    assert read_data({"x": np.ones((6, 3), "f"), "label": Y}, made(text)).batch_size == 2
    with pytest.raises(ArgumentError) as caught:
        read_data({"x": np.ones((5, 3), "f"), "label": Y[:5]}, made(text))
    assert str(caught.value) == (
        "Input 'x' takes batches of 2 and no others, and 'x' of the data has 5 rows, which is no "
        "multiple. Leave some out, or export the model with a first axis of any size."
    )


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        (
            {"x": X, "y": Y},
            {},
            "the data has no array 'label', which input 'label' INT64[N] needs. Say which one it "
            "is with columns={'label': NAME} (on the command line --input label=NAME, or --label "
            "NAME), or give a constant: there are 2: 'x', 'y'",
        ),
        (
            {"x": X, "y": Y},
            {"lable": "y"},
            "Step 'model' has no input 'lable'; did you mean 'label'?",
        ),
        (
            {"x": X, "label": Y.astype("f")},
            {},
            "'label' of the data is float32, but input 'label' is INT64[N]: that would lose "
            "digits. Write it with astype('int64'), or name another array.",
        ),
        (
            {"x": np.full((6, 2, 2), "a"), "label": Y},
            {},
            "'x' of the data is text, but input 'x' is FLOAT[N,2,2]. Give an array of numbers, "
            "or name another array.",
        ),
        (
            {"x": X[:, 0], "label": Y},
            {},
            "'x' of the data has shape [6, 2], but input 'x' is FLOAT[N,2,2], whose first axis is "
            "that of the examples. Change the shape of the array, or name another one.",
        ),
        (
            {"x": X, "label": Y[:, None]},
            {},
            "'label' of the data has shape [6, 1], but input 'label' is INT64[N], whose first axis "
            "is that of the examples. Drop the axis of 1: write it with [:, 0].",
        ),
        (
            {"x": X, "label": Y[:4]},
            {},
            "'x' of the data has 6 rows, and 'label' of the data 4: each example is one row of "
            "every array. Give as many of each.",
        ),
        (
            {"x": X[:0], "label": Y[:0]},
            {},
            "'x' of the data has no rows: each example is one. Give some.",
        ),
        (
            {"x": X, "label": Y + 1},
            {},
            "'label' of the data has 3 at [2], but the model has 3 classes, 0 to 2. Correct that, "
            "or have it left out by ignore_index=3.",
        ),
        (
            {"x": X, "label": Y - 1},
            {},
            "'label' of the data has -1 at [0], but the model has 3 classes, 0 to 2. Correct that, "
            "or have it left out by ignore_index=-1.",
        ),
        (
            {"a": X, "b": Y, "label": Y},
            {"x": "a,b"},
            "'a', 'b' of the data make up one input, but 'a' has shape [6, 2, 2]: several arrays "
            "have one number in each row. Give one array that holds all.",
        ),
    ],
)
def test_what_does_not_fit(
    data: Mapping[str, Any], columns: Mapping[str, str], message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_data(data, step(), columns)
    assert str(caught.value) == message


def test_ignored_labels_may_be_anything() -> None:
    ignoring = training.step(
        parse("(float[N,3] x) => (float[N,3] z) <float[3] w = {1,1,1}> { z = Mul(x, w) }"),
        training.cross_entropy(ignore_index=-100),
        "sgd",
    )
    labels = np.where(Y == 1, -100, Y)
    assert len(read_data({"x": np.ones((6, 3), "f"), "label": labels}, ignoring)) == 6


def test_whole_numbers_that_do_not_fit() -> None:
    embedding = made(
        """(int32[N] x) => (float[N,3] z) <float[2,3] w = {1,1,1,2,2,2}> { z = Gather(w, x) }"""
    )
    data = read_data({"x": np.array([0, 1, 0, 1, 0, 2**40]), "label": Y}, embedding)
    assert data.take(np.array([0, 1]))["x"].dtype == np.int32
    with pytest.raises(ArgumentError, match="'x' of the data has 1099511627776, which is no int32"):
        data.take(EVERY)


def damaged(path: Path) -> None:
    if path.name == "pickled.npz":
        np.savez(path, x=np.array([None, "a"], object), y=Y)
    elif path.name == "large.npz":
        # Says that 2^40 numbers follow.
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 2, 2), }"
            size = (len(header) + 1).to_bytes(2, "little")
            archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + size + header + b"\n")
    elif path.name == "cut.npz":
        write(path)
        path.write_bytes(path.read_bytes()[:-60])
    elif path.name == "empty":
        path.mkdir()
    elif path.name == "uneven.parquet":
        pa.parquet.write_table(pa.table({"x": [[1.0], [1.0, 2.0]], "y": [0, 1]}), path)
    elif path.name != "lacking.npz":
        texts = {"header.csv": "x,y\n", "lacking.csv": "x,y\n1,0\n,1\n"}
        path.write_text(texts.get(path.name, "a,b\n1,2\n3\n"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lacking.npz", "does not exist; its folder is empty"),
        ("cut.npz", "holds no arrays in NumPy's .npz format, which np.savez writes, or is damaged"),
        ("pickled.npz", "has an array of pickled objects, which are never loaded"),
        ("large.npz", "is damaged, or truncated: its size is not that of its array"),
        (
            "empty",
            "holds none of .npz, .npy, .parquet, .arrow, .feather, .csv; give a folder with a",
        ),
        ("bad.parquet", "cannot be read as a table (Parquet magic bytes not found in footer."),
        ("bad.arrow", "cannot be read as a table ("),
        ("bad.csv", "cannot be read as a table (CSV parse error: Expected 2 columns, got 1: 3)"),
        (
            "uneven.parquet",
            "column 'x' has 1 values in row 0, but 2 in row 1; fill the lists up to one length",
        ),
        ("header.csv", "column 'x' has no rows, so that nobody knows its type"),
        (
            "lacking.csv",
            "column 'x' has no value in row 1, and in 1 in all; fill them, or leave these rows out",
        ),
    ],
)
def test_files_that_cannot_be_read(name: str, message: str, tmp_path: Path) -> None:
    damaged(tmp_path / name)
    with pytest.raises(FormatError) as caught:
        read_data(tmp_path / name, step(), {"label": "y"})
    assert str(caught.value).startswith(f"'{tmp_path / name}': {message}")


def test_columns_of_text_beside_numbers_are_named(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text("y,p0,p1,p2\n0,1,a,b\n1,2,c,d\n")
    with pytest.raises(ArgumentError) as caught:
        read_data(file, step(), {"x": ["p0", "p1", "p2"], "label": "y"})
    assert str(caught.value) == (
        f"'p1', 'p2' of '{file}' is text, and the columns beside it are numbers. Leave it out, or "
        "write numbers."
    )


def test_pyarrow_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "d.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArgumentError) as caught:
        read_data(tmp_path / "d.csv", step())
    assert str(caught.value) == (
        f"'{tmp_path / 'd.csv'}' is read by the package pyarrow, which is not installed. Install "
        "it with: pip install 'whileback[data]'"
    )


def test_files_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "d.xls").write_text("")
    with pytest.raises(ArgumentError, match=r"d.xls' is no file of data that is known: its name"):
        read_data(tmp_path / "d.xls", step())
    write(tmp_path / "a.npz"), write(tmp_path / "b.npz")
    with pytest.raises(ArgumentError, match=r"b.npz' has 'x', and so has another one of the files"):
        read_data([tmp_path / "a.npz", tmp_path / "b.npz"], step())
