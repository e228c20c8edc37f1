"""Files that appear whole or not at all."""

from pathlib import Path

import pytest

from whileback.formats.atomic import atomic_files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_appear_together_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with atomic_files() as open_file:
        open_file(tmp_path / "a").write(b"new")
        open_file(tmp_path / "b").write(b"beside")
        assert (tmp_path / "a").read_bytes() == b"old"
        assert not (tmp_path / "b").exists()
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "b").read_bytes() == b"beside"
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_nothing_is_left_of_a_failure(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error), atomic_files() as open_file:
        open_file(tmp_path / "a").write(b"new")
        open_file(tmp_path / "b").write(b"beside")
        raise error
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_nothing_is_left_when_the_name_cannot_be_taken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError), atomic_files() as open_file:
        open_file(tmp_path / "a").write(b"new")
    assert names(tmp_path) == ["a"]
