"""Arrays as arguments and as results: what is read, printed, saved and refused."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from whileback.cli.arrays import describe_output, read_inputs, save_outputs
from whileback.errors import ArgumentError, FormatError


def refusal(*words: str) -> str:
    with pytest.raises(ArgumentError) as caught:
        read_inputs(words)
    return str(caught.value)


def test_literals_and_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x=1.npy", np.arange(3))
    read = read_inputs(["a=3.5", "b=[[1,2],[3,4]]", "c=true", "a/b:0=7", f"x={tmp_path}/x=1.npy"])
    assert list(read) == ["a", "b", "c", "a/b:0", "x"]
    assert (read["a"], read["b"], read["c"], read["a/b:0"]) == (3.5, [[1, 2], [3, 4]], True, 7)
    assert read["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("word", ["x", "=3", "x="])
def test_no_name_or_no_value(word: str) -> None:
    assert refusal(word) == f"Input {word!r} is not of the form NAME=VALUE, such as x=x.npy."


def test_twice() -> None:
    assert refusal("x=1", "x=2") == "Input 'x' is given twice; give it once."


def test_no_literal() -> None:
    assert refusal("x=[1,2") == (
        "Input 'x': '[1,2' is neither a .npy file nor a number, a boolean or a list of them, such "
        "as 3.5, true or [[1,2],[3,4]]."
    )


def test_no_file(tmp_path: Path) -> None:
    assert refusal(f"x={tmp_path}/x.npy") == (
        f"Input 'x': '{tmp_path}/x.npy': No such file or directory; check the path and its "
        "permissions"
    )


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    assert refusal(f"x={tmp_path}/x.npy") == (
        f"Input 'x': '{tmp_path}/x.npy': has an array of pickled objects, which are never loaded"
    )


def test_files_of_another_format(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"1 2 3")
    assert refusal(f"x={tmp_path}/x.npy").startswith(
        f"Input 'x': '{tmp_path}/x.npy': holds no arrays in NumPy's .npy format"
    )
    (tmp_path / "x.npy").write_bytes(b"")
    assert refusal(f"x={tmp_path}/x.npy").startswith(f"Input 'x': '{tmp_path}/x.npy'")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array(2.5, np.float32), "y : FLOAT[] = 2.5"),
        (np.array([[1, 2]]), "y : INT64[1,2] = [[1, 2]]"),
        (np.zeros((0, 3), np.float32), "y : FLOAT[0,3] = []"),
        (np.linspace(-1, 2, 12).reshape(3, 4), "y : DOUBLE[3,4] = 12 values, -1 … 2"),
        (np.ones(9, ml_dtypes.bfloat16), "y : BFLOAT16[9] = 9 values, 1 … 1"),
        (np.array(["a", "b"], object), "y : STRING[2] = ['a', 'b']"),
        ([np.zeros(2), np.zeros(3)], "y : sequence of 2"),
        (None, "y : none"),
    ],
)
def test_one_line_for_an_output(value: object, text: str) -> None:
    assert describe_output("y", value) == text


def test_what_is_saved_reads_back_without_pickle(tmp_path: Path) -> None:
    outputs = {
        "file": np.array([1.5, 2]),
        "a/b": np.array([[1, 2]], np.int32),
        "words": np.array(["a", "bc"], object),
        "brain": np.array([1.5, 3], ml_dtypes.bfloat16),
    }
    save_outputs(outputs, str(tmp_path / "o.npz"))
    with np.load(tmp_path / "o.npz", allow_pickle=False) as saved:
        assert {name: saved[name].tolist() for name in saved} == {
            "file": [1.5, 2],
            "a/b": [[1, 2]],
            "words": ["a", "bc"],
            "brain": [1.5, 3],
        }
        assert saved["a/b"].dtype == np.int32
        assert saved["brain"].dtype == np.float32


def test_sequences_are_not_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "o.npz")
    with pytest.raises(FormatError) as caught:
        save_outputs({"s": [np.zeros(2)]}, path)
    assert str(caught.value) == f"'{path}': output 's' is no array, and .npz holds only arrays"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "no" / "o.npz")
    with pytest.raises(FormatError) as caught:
        save_outputs({"y": np.zeros(2)}, path)
    assert str(caught.value) == (
        f"'{path}' cannot be written: No such file or directory; check the path and its permissions"
    )
