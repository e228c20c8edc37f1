"""Arrays in NumPy's files: whatever the bytes are, an array or an error comes of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from whileback.errors import FormatError
from whileback.formats.numpy_files import npy, npz

ARRAYS = {
    "floats": np.arange(6, dtype="f").reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "number": np.array(3.5),
    "none": np.zeros((0, 3), np.int8),
    "large_endian": np.arange(3, dtype=">i4"),
    "text": np.array(["a", "bc"]),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back(save: object, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **ARRAYS)  # type: ignore[operator]
    read = npz(tmp_path / "a.npz")
    assert list(read) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
        for found in (read[name](), npy(tmp_path / f"{name}.npy")()):
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_bytes_that_make_no_sense(kind: str, tmp_path: Path) -> None:
    """Some changes make another array, and none makes anything but an array or an error."""
    path = tmp_path / ("a.npy" if kind == "npy" else "a.npz")
    if kind == "npy":
        np.save(path, ARRAYS["floats"])
    else:
        (np.savez if kind == "npz" else np.savez_compressed)(path, a=ARRAYS["floats"])
    whole, random, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(150):
        changed = bytearray(whole)
        changed[random.integers(len(whole))] = random.integers(256)
        path.write_bytes(changed[: random.choice([len(whole), random.integers(len(whole))])])
        try:
            read = {"a": npy(path)} if kind == "npy" else npz(path)
            for each in read.values():
                assert each().nbytes < 1000
        except FormatError as error:
            assert str(error).startswith(f"'{path}': ")
            refused += 1
    assert 50 < refused < 150


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_arrays_that_the_file_has_no_room_for(compression: int, tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"1234"
    (tmp_path / "a.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
        archive.writestr("a.npy", data)
    for read in (npy(tmp_path / "a.npy"), npz(tmp_path / "a.npz")["a"]):
        with pytest.raises(FormatError, match=r"is damaged, or truncated: its size is not that of"):
            read()


def test_a_header_that_is_no_description(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones(3))
    path.write_bytes(path.read_bytes().replace(b"False", b"Falsy"))
    with pytest.raises(FormatError, match=r"\(malformed node or string[^<>]*\); write"):
        npy(path)()
