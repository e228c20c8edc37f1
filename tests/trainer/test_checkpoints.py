"""Checkpoints come back as they were, or are refused by name, with nothing lost."""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from safetensors.numpy import save_file
from tests.trainer.models import data, trainer

from whileback.errors import FormatError, TrainingError
from whileback.trainer.checkpoints import (
    Checkpoint,
    _checksum,
    read_checkpoint,
    write_checkpoint,
)
from whileback.training.interface import Interface

STATE = {
    "a/b:0": np.arange(6, dtype="f").reshape(2, 3),
    "n": np.array(7),
    "empty": np.zeros((0, 2)),
    "flags": np.array([True, False]),
    "half": np.array([1, 2], ir.DataType.BFLOAT16.numpy()),
    "transposed": np.arange(6.0).reshape(2, 3).T,
}
KNOWN = Interface("loss", {"loss": "mse"}, ["a/b:0"], ["transposed"], ["n"])
POSITION = {"epoch": 1, "sums": {"loss": 0.1 + 0.2}}
CHECKPOINT = Checkpoint(STATE, 3, "abc", KNOWN, POSITION)


def test_there_and_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", CHECKPOINT)
    found = read_checkpoint(tmp_path / "c")
    assert (found.steps, found.signature, found.position) == (3, "abc", CHECKPOINT.position)
    assert found.interface == KNOWN
    assert list(found.parameters()) == ["a/b:0", "transposed"]
    assert found.state.keys() == STATE.keys()
    for name, array in STATE.items():
        assert np.array_equal(found.state[name], array)
        assert found.state[name].dtype == array.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_others_may_read_it_as_they_may_other_files(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", CHECKPOINT)
    (tmp_path / "other").touch()
    assert (tmp_path / "c").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_is_replaced_only_on_demand(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", CHECKPOINT)
    with pytest.raises(FormatError) as caught:
        write_checkpoint(tmp_path / "c", CHECKPOINT)
    assert str(caught.value) == (
        f"'{tmp_path / 'c'}' exists; choose another name, or replace it with --force (in Python "
        "overwrite=True)"
    )
    write_checkpoint(tmp_path / "c", CHECKPOINT, overwrite=True)


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    """Any bit that changes, and any end that is missing."""
    write_checkpoint(tmp_path / "c", CHECKPOINT)
    whole = (tmp_path / "c").read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 2
        for damaged in (whole[:place], changed):
            (tmp_path / "d").write_bytes(damaged)
            with pytest.raises(FormatError, match=r"damaged|no checkpoint"):
                read_checkpoint(tmp_path / "d")


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    save_file({"w": np.zeros(2)}, tmp_path / "weights")
    expected = {
        "weights": "holds tensors, but is no checkpoint of whileback; name one that training has "
        "written",
        "missing": "is no file; name a checkpoint, such as 'last.safetensors' of a run",
    }
    for name, text in expected.items():
        with pytest.raises(FormatError) as caught:
            read_checkpoint(tmp_path / name)
        assert str(caught.value) == f"'{tmp_path / name}': {text}"


def write_by_hand(path: Path, metadata: str, kind: str = "F32") -> None:
    """Write a file with one tensor, and metadata whose checksum is right."""
    size = 16 if kind == "F32" else 4
    entry = {"dtype": kind, "shape": [4], "data_offsets": [0, size]}
    said = {"whileback.checkpoint": f"{zlib.crc32(metadata.encode())} {metadata}"}
    header = json.dumps({"__metadata__": said, "w": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


SAID: dict[str, Any] = {
    "checksums": {"w": 1},
    "interface": asdict(Interface("loss", {}, ["w"], [], [])),
    "position": {},
    "signature": "",
    "steps": 1,
    "version": 1,
}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[" * 100000,
        "7",
        "[]",
        "{}",
        json.dumps(SAID | {"steps": "1"}),
        json.dumps(SAID | {"more": 1}),
        json.dumps({name: each for name, each in SAID.items() if name != "interface"}),
    ],
)
def test_metadata_of_strangers(said: str, tmp_path: Path) -> None:
    write_by_hand(tmp_path / "c", said)
    with pytest.raises(FormatError) as caught:
        read_checkpoint(tmp_path / "c")
    assert str(caught.value) == (
        f"'{tmp_path / 'c'}': has metadata that whileback has not written; name a checkpoint that "
        "training has written"
    )


def test_other_files_of_strangers(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checksum, known = {"w": _checksum(np.zeros(4, "f"))}, SAID["interface"]
    for said, kind, text in (
        (SAID | {"version": 2}, "F32", "is of version 2, and this whileback reads 1; take the"),
        (SAID, "F32", "is damaged in tensor 'w'; take another checkpoint"),
        (SAID, "F8_E5M2", "has a tensor of a type that no step keeps ("),
        *(
            (SAID | {"checksums": checksum, "interface": each}, "F32", "has metadata that")
            for each in (
                known | {"parameters": ["v"]},
                known | {"parameters": [["w"]]},
                known | {"averages": {"w": 1}},
                known | {"averages": []},
                known | {"flat": [{"name": "v", "shape": [5], "offset": 0}]},
                known | {"flat": [{"name": "v", "shape": ["4"], "offset": 0}]},
                known | {"flat": [{"name": "v", "shape": [4], "offset": 1}]},
                {"more": 1},
            )
        ),
    ):
        write_by_hand(path, json.dumps(said), kind)
        with pytest.raises(FormatError) as caught:
            read_checkpoint(path)
        assert str(caught.value).startswith(f"'{path}': {text}")


def test_checkpoints_of_other_steps(tmp_path: Path) -> None:
    """Nothing changes, and it is said which tensors are at fault."""
    adam, sgd = trainer(), trainer(optimizer="sgd")
    adam.save(tmp_path / "adam")
    sgd.step(data(), 0.1)
    before = sgd.state()
    with pytest.raises(FormatError) as caught:
        sgd.restore(tmp_path / "adam")
    assert str(caught.value) == (
        f"'{tmp_path / 'adam'}' is no checkpoint of step 'model': it has 'b_mean'; "
        "it has 'b_square'; it has 'c_mean'; it has 'c_square'; and 5 more. Take one that "
        "the same step has written, with the same model, losses and optimizer."
    )
    state = {**before, "w": np.zeros((4, 2), "f"), "b": before["b"].astype("d")}
    del state["m"]
    known = replace(read_checkpoint(tmp_path / "adam").interface, statistics=[])
    write_checkpoint(tmp_path / "shapes", Checkpoint(state, 1, sgd.signature, known))
    with pytest.raises(FormatError) as caught:
        sgd.restore(tmp_path / "shapes")
    assert str(caught.value) == (
        f"'{tmp_path / 'shapes'}' is no checkpoint of step 'model': it lacks 'm'; 'w' is "
        "float32[4, 2], not float32[4, 3]; 'b' is float64[3], not float32[3]. Take one that the "
        "same step has written, with the same model, losses and optimizer."
    )
    write_checkpoint(tmp_path / "losses", Checkpoint(before, 1, "other", known))
    with pytest.raises(FormatError, match="it has other losses"):
        sgd.restore(tmp_path / "losses")
    assert sgd.steps == 1
    for name, array in sgd.state().items():
        assert np.array_equal(array, before[name])


def test_nothing_is_written_that_nobody_can_go_on_from(tmp_path: Path) -> None:
    trained = trainer()
    trained.save(tmp_path / "c")
    whole = (tmp_path / "c").read_bytes()
    trained.load({**trained.state(), "b": np.array([1, np.inf, 0], "f")})
    with pytest.raises(TrainingError) as caught:
        trained.save(tmp_path / "c", overwrite=True)
    assert str(caught.value) == (
        "'b' has NaN or infinite elements after step 0. Take a smaller learning rate or limit "
        "gradients with clip_norm=, and see that the data holds no NaN; go on from a checkpoint."
    )
    assert (tmp_path / "c").read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(FormatError) as caught:
        trainer().save(tmp_path / "c")
    assert str(caught.value) == (
        "Checkpoints need the package safetensors, which is not installed. Install it with: pip "
        "install 'whileback[training]'"
    )
