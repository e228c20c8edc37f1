"""Which data files a model may refer to: one message for each way out of the folder."""

import os
import re
from pathlib import Path

import pytest

from whileback.errors import FormatError
from whileback.formats.external_data import DataFolder, Reference


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(b"s" * 64)
    (inside / "w.bin").write_bytes(bytes(range(24)))
    return inside


def reference(location: str, offset: int = 0, length: int | None = None) -> Reference:
    return Reference("initializer 'w'", "FLOAT[4]", location, offset, length, nbytes=16)


def refusal(folder: Path, *args: object) -> str:
    with pytest.raises(FormatError) as caught:
        DataFolder(folder).check(reference(*args))  # type: ignore[arg-type]
    return str(caught.value)


def start(location: str) -> str:
    return f"initializer 'w': external data location {location!r} "


def test_a_file_inside_is_found(folder: Path) -> None:
    assert DataFolder(folder).check(reference("w.bin", 8, 16)) == folder / "w.bin"
    assert DataFolder(folder).check(reference("a/../w.bin")) == folder / "w.bin"


def test_a_link_that_stays_inside_is_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "w.bin")
    assert DataFolder(folder).check(reference("link")) == folder / "w.bin"


def test_a_folder_reached_by_a_link_holds_its_own_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    assert DataFolder(tmp_path / "alias").check(reference("w.bin")) == folder / "w.bin"
    assert DataFolder(tmp_path / "alias").is_same(DataFolder(folder))


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("", "is empty"),
        ("w\0.bin", "holds a NUL byte"),
        ("/etc/hostname", "is absolute"),
        ("../secret", "leads outside of the model's folder"),
        ("a/../../secret", "leads outside of the model's folder"),
        ("..", "leads outside of the model's folder"),
    ],
)
def test_locations_that_give_themselves_away(folder: Path, location: str, problem: str) -> None:
    advice = f"; name a file in the model's folder '{folder}', relative to it"
    assert refusal(folder, location) == start(location) + problem + advice


@pytest.mark.parametrize("location", ["link", "way/secret"])
def test_links_that_lead_outside(folder: Path, tmp_path: Path, location: str) -> None:
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "way").symlink_to(tmp_path)
    assert refusal(folder, location) == start(location) + (
        f"is or passes a link that leads outside of the model's folder '{folder}'; "
        "put the data file itself into that folder"
    )


def test_a_folder_whose_name_begins_alike_is_outside(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "model2").mkdir()
    (tmp_path / "model2" / "s").write_bytes(b"s" * 64)
    (folder / "link").symlink_to(tmp_path / "model2" / "s")
    assert "is or passes a link that leads outside" in refusal(folder, "link")


def test_a_hard_link(folder: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "secret", folder / "hard")
    assert refusal(folder, "hard") == start("hard") + (
        "has 2 hard links, so its bytes may belong to a file elsewhere; "
        "replace it by a copy of itself"
    )


def test_what_is_no_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "circle").symlink_to(folder / "circle")
    for location in ("sub", "pipe", ".", "circle"):
        assert refusal(folder, location) == (
            start(location) + "is not a regular file; put the data into one"
        )


def test_a_missing_file(folder: Path) -> None:
    assert refusal(folder, "w.bim") == start("w.bim") + (
        f"does not exist in the model's folder '{folder}'; put the data file there "
        "(did you mean 'w.bin'?)"
    )
    assert refusal(folder / "gone", "w.bin") == start("w.bin") + (
        f"cannot be found: there is no folder '{folder / 'gone'}'; give the model's folder"
    )


def test_paths_that_the_system_refuses(folder: Path) -> None:
    for location in ("x" * 300, "w.bin/x"):
        message = refusal(folder, location)
        assert message.startswith(start(location) + f"cannot be looked up in '{folder}': ")
        assert message.endswith("; check the path")


def test_a_negative_offset(folder: Path) -> None:
    assert refusal(folder, "w.bin", -8) == (
        start("w.bin") + "has the negative offset -8; write it again"
    )


def test_a_length_that_is_not_what_the_type_needs(folder: Path) -> None:
    assert refusal(folder, "w.bin", 0, 12) == start("w.bin") + (
        "has length 12, but FLOAT[4] needs 16 bytes; write the model again"
    )


@pytest.mark.parametrize("offset", [9, 2**63])
def test_a_piece_beyond_the_end(folder: Path, offset: int) -> None:
    assert refusal(folder, "w.bin", offset) == start("w.bin") + (
        f"holds 24 bytes, but FLOAT[4] is said to take 16 from offset {offset}; "
        "the data file is truncated or belongs to another model"
    )


def test_nothing_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"opened {args}")

    monkeypatch.setattr("os.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    assert re.search("leads outside", refusal(folder, "../secret"))
    DataFolder(folder).check(reference("w.bin"))


def test_location_of(folder: Path, tmp_path: Path) -> None:
    assert DataFolder(tmp_path).location_of(folder / "w.bin") == "model/w.bin"
    assert DataFolder(folder).location_of(tmp_path / "secret") is None
