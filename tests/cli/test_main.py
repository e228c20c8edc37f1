"""How the command ends: by a message, by Ctrl-C, or because nobody reads on."""

import errno
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from tests.cli.conftest import MODEL, Command

from whileback.cli import commands

WHILEBACK = (sys.executable, "-m", "whileback")


def test_a_file_that_is_not_there(command: Command) -> None:
    assert command("show", "powr.onnx.txt") == (
        1,
        "",
        "error: 'powr.onnx.txt': does not exist; did you mean 'power.onnx.txt'?\n",
    )


def test_an_unknown_value(command: Command) -> None:
    assert command("check", "power.onnx.txt", "--of", "los", "--wrt", "w") == (
        2,
        "",
        "error: of= names 'los', but the main graph of model 'power' has no such value; did you "
        "mean 'loss'?\n",
    )


def test_ctrl_c(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "show", interrupted)
    assert command("show", "power.onnx.txt") == (130, "", "interrupted\n")


def test_a_mistake_of_ours_shows_where_it_is(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "show", broken)
    with pytest.raises(ZeroDivisionError):
        command("show", "power.onnx.txt")


def test_the_module_runs_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [*WHILEBACK, "show", "m.onnx"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: 'm.onnx': does not exist; its folder is empty\n"


def test_a_broken_model_is_told_of_once(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Mul", ["x", "q"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []) for name in "xy")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "m", [x], [y])), tmp_path / "m")
    words = [*WHILEBACK, "check", "m", "--of", "y", "--wrt", "x"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: Node 'y' (Mul) reads 'q', which no node, input or initializer in reach defines; "
        "there are 2: 'x', 'y'\n"
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen([*WHILEBACK, "rules"], stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (141, b"")


def test_a_signal_in_the_middle_leaves_no_traceback(tmp_path: Path) -> None:
    fifo = tmp_path / "x.npy"
    os.mkfifo(fifo)
    words = [*WHILEBACK, "run", "m.onnx", f"x={fifo}"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        writing = open_for_a_reader(fifo, process)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        os.close(writing)
    assert (process.returncode, errors) == (130, b"interrupted\n")


ENDLESS = """<ir_version: 10, opset_import: ["" : 21]>
endless (float x) => (float y) {
    y = Loop ("", "", x) <body = trip (int64 i, bool c, float v) => (bool go, float u) {
        go = Identity (c)
        u = Identity (v)
    }>
}
"""


def test_a_signal_ends_an_endless_loop_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx.txt").write_text(ENDLESS)
    words = [*WHILEBACK, "run", "m.onnx.txt", "x=1"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        wait_for_the_runtime(process)
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, errors) == (130, b"interrupted\n")


def wait_for_the_runtime(process: subprocess.Popen[bytes]) -> None:
    """Return once a process has loaded ONNX Runtime, which it does right before it runs a model."""
    maps = Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and "onnxruntime" not in maps.read_text():
        time.sleep(0.1)


def open_for_a_reader(fifo: Path, process: subprocess.Popen[bytes]) -> int:
    """Open the FIFO once the process waits for what will be written into it."""
    while process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.01)
    raise AssertionError("the command ended early")


@pytest.mark.parametrize(
    ("redirection", "status", "out", "err"),
    [
        (">/dev/full", 1, "", "error: the output: No space left on device; make room there\n"),
        (">&-", 0, "", ""),
        ("missing 2>&-", 1, "", ""),
    ],
)
def test_streams_that_take_nothing(
    redirection: str, status: int, out: str, err: str, tmp_path: Path
) -> None:
    """A full disk behind stdout, and streams that the shell has closed."""
    (tmp_path / "m.onnx.txt").write_text(MODEL)
    model = "" if redirection.startswith("missing") else "m.onnx.txt"
    words = f"{shlex.quote(sys.executable)} -m whileback show {model} {redirection}"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, out, err)


def test_a_full_disk_is_told_of(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("whileback.formats.atomic.secrets.token_hex", full)
    for words in (
        ("gradient", "power.onnx.txt", "--of", "loss", "--wrt", "x", "-o", "g.onnx"),
        ("show", "power.onnx.txt", "--html", "g.html"),
        ("run", "power.onnx.txt", "n=1", "x=[1,2]", "-o", "g.npz"),
    ):
        result = command(*words)
        assert result.status == 1
        assert result.err.endswith("No space left on device; make room there\n")
    assert sorted(path.name for path in Path().iterdir()) == ["power.onnx.txt"]
