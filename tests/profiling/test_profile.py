"""What nodes take: counted exactly, timed plausibly, told of and drawn."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx_ir as ir
import pytest
from tests.cli.conftest import MODEL, Command, command

import whileback
from whileback.engines.tracing import Event
from whileback.errors import ArgumentError, EngineError
from whileback.profiling.flame import to_folded, to_svg
from whileback.profiling.measure import _add
from whileback.profiling.profile import Cost, Profile
from whileback.profiling.table import to_table
from whileback.profiling.trips import add_trips

__all__ = ["command"]

X = np.array([1, 2], np.float32)
TRIPS = ([30] * 9 + [40], list(range(1024, 2048, 100))[:10])


def made() -> Profile:
    """Return a profile of round numbers: a loop of 10 trips with its gradient."""
    return Profile(
        "m",
        (
            Cost("loop", "Loop", (), "loop", False, True, False, 1, 500, 80, 4000, *TRIPS),
            Cost("mul<", "Mul", ("loop",), "mul<", False, False, False, 10, 300, 80, 2000),
            Cost("grad", "Scan", (), "loop", True, True, False, 1, 400, 8, 4000, *TRIPS),
            Cost("mul/grad", "Mul", ("grad",), "mul<", True, False, False, 10, 100, 80, 5_000_000),
        ),
        1000,
        200.0,
        5,
    )


def test_every_trip_and_every_byte_is_counted() -> None:
    gradient = whileback.gradient(ir.from_onnx_text(MODEL), "loss", "x")
    found = whileback.profile(gradient, {"n": 7, "x": X}, runs=2, optimization="disabled")
    costs = {(cost.operator, cost.is_backward): cost for cost in found.costs}
    forward, backward = costs["Mul", False], costs["Mul", True]
    assert (forward.count, forward.output, forward.path) == (7, 7 * 8, ("Loop",))
    assert (backward.count, backward.source) == (7, forward.name)
    assert [cost.operator for cost in found.costs if cost.is_loop] == ["Loop", "Scan"]
    assert set(found.trips().values()) == {7}
    assert 0 < sum(found.own_times().values()) <= found.time
    assert found.plain_time > 0


def test_trips_are_told_apart() -> None:
    """The memory in use grows by a row of the tape in each trip forward."""
    gradient = whileback.gradient(
        ir.from_onnx_text(
            MODEL.replace("[2]", "[512]")
            .replace(" <float[512] w = {0.5, 2}>", "")
            .replace("float[512] x)", "float[512] x, float[512] w)")
        ),
        "loss",
        "x",
    )
    found = whileback.profile(gradient, {"n": 7}, runs=2, optimization="disabled")
    forward, backward = (cost for cost in found.costs if cost.is_loop)
    for cost in (forward, backward):
        assert len(cost.trip_times) == len(cost.trip_in_use) == 7
        inner = [each for each in found.costs if each.path and each.path[-1] == cost.name]
        assert sum(cost.trip_times) == sum(each.time for each in inner)
        assert max(cost.trip_in_use) <= found.in_use
    assert forward.trip_in_use[-1] > forward.trip_in_use[0] >= 2 * 4 * 512
    assert found.trips() == {forward.name: 7, backward.name: 7}


def test_what_stands_deep_in_a_trip_counts_for_it() -> None:
    costs = {
        "outer": Cost("outer", "Loop", (), "outer", is_loop=True),
        "if": Cost("if", "If", ("outer",), "if"),
        "inner": Cost("inner", "Loop", ("outer", "if"), "inner", is_loop=True),
        "neg": Cost("neg", "Neg", ("outer", "if", "inner"), "neg"),
    }
    add_trips(
        costs,
        [
            *(Event("neg", "Neg", 0, 1, in_use=10), Event("neg", "Neg", 2, 1, in_use=30)),
            *(Event("inner", "Loop", 0, 4, in_use=5), Event("if", "If", 0, 5, in_use=6)),
            *(Event("neg", "Neg", 6, 2, in_use=20), Event("inner", "Loop", 6, 3, in_use=5)),
            *(
                Event("if", "If", 5, 7, in_use=8),
                Event("outer", "Loop", 0, 13),
                Event("", "", 0, 14),
            ),
        ],
    )
    assert (costs["outer"].trip_times, costs["outer"].trip_in_use) == ([5, 7], [30, 20])
    assert (costs["inner"].trip_times, costs["inner"].trip_in_use) == ([1, 1, 2], [10, 30, 20])


def test_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name in (f"{dead.pid}-x", f"{os.getpid()}-x", "other", "no-number"):
        (tmp_path / f"whileback-profile-{name}").mkdir()
    whileback.profile(ir.from_onnx_text(MODEL), {"n": 1}, runs=1)
    left = sorted(folder.name.removeprefix("whileback-profile-") for folder in tmp_path.iterdir())
    assert left == sorted([f"{os.getpid()}-x", "no-number", "other"])


def test_nodes_of_one_name_are_told_apart() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    twice (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = a () => (float[2] t) { t = Neg (x) },
                    else_branch = b () => (float[2] t) { t = Abs (x) }>
    }"""
    model = ir.from_onnx_text(text)
    for node in model.graph.all_nodes():
        node.name = "same"
    found = whileback.profile(model, {"c": np.array(False), "x": X}, runs=1)
    assert [(cost.operator, cost.count) for cost in found.costs] == [("If", 1), ("Abs", 1)]
    assert {node.name for node in model.graph.all_nodes()} == {"same"}


def test_a_node_of_the_runtime_stands_where_it_ran() -> None:
    costs = {"loop": Cost("loop", "Loop", (), "loop", is_loop=True)}
    _add(
        costs,
        [
            Event("early", "Fused", 0, 5),
            Event("fused", "Fused", 12, 3, output=8),
            Event("fused", "Fused", 16, 3, output=8),
            Event("loop", "Loop", 10, 20),
            Event("", "", 0, 40),
        ],
    )
    assert [(c.name, c.path, c.count, c.time) for c in costs.values()] == [
        ("loop", (), 1, 20),
        ("fused", ("loop",), 2, 6),
        ("early", (), 1, 5),
    ]


def test_the_table() -> None:
    assert to_table(made()) == (
        "m: 0.200 ms a run on ONNX Runtime, 1.000 while nodes are noted;\n"
        "22 nodes run; at most 4.8 MB in use (the fastest of 5 runs)\n"
        "\n"
        "node  operator  share  forward ms  backward ms  runs  outputs  in use\n"
        "loop  Loop      50.0%       0.200        0.300     1     88 B  3.9 KB\n"
        "mul<  Mul       40.0%       0.300        0.100    10    160 B  4.8 MB\n"
        "\n"
        "loop  operator  trips     ms  µs a trip  in nodes  at most  first in use  most in use\n"
        "loop  Loop         10  0.500       50.0      31.0     40.0        1.0 KB       1.9 KB\n"
        "grad  Scan         10  0.400       40.0      31.0     40.0        1.0 KB       1.9 KB"
    )
    apart = to_table(made(), everything=True).splitlines()
    assert [line.split()[0] for line in apart[4:8]] == ["mul<", "grad", "loop", "mul/grad"]


def test_the_picture() -> None:
    svg = to_svg(made())
    root = ElementTree.fromstring(svg)
    boxes = root.findall("{*}g/{*}rect")
    assert [(float(b.get("x", "")), float(b.get("width", ""))) for b in boxes] == [
        *((0, 1200), (0, 600), (0, 360), (600, 480), (600, 120)),
    ]
    assert [str(b.get("class")) for b in boxes[1:]] == [
        *["frame forward"] * 2,
        *["frame backward"] * 2,
    ]
    assert root.findtext("{*}g[3]/{*}title") == (
        "mul< (Mul)\n0.300 ms, 10 times, 30.0 µs each\n80 B written, at most 2.0 KB in use"
    )
    assert root.findtext("{*}g[4]/{*}title") == (
        "grad (Scan)\n0.400 ms, 1 times\n10 trips; 1.0 KB in use in the first of them, at most "
        "1.9 KB\n8 B written, at most 3.9 KB in use\nfrom loop"
    )
    assert "script" not in svg and svg.count("http") == 1


def test_nodes_too_thin_to_be_seen_are_drawn_together() -> None:
    costs = [Cost(f"n{i}", "Neg", (), f"n{i}", i >= 6_000, count=1, time=1) for i in range(10_000)]
    root = ElementTree.fromstring(to_svg(Profile("m", tuple(costs), 10_000, 1.0, 1)))
    assert [title.text for title in root.findall("{*}g/{*}title")[1:]] == [
        *("6000 nodes, 6.000 ms together", "4000 nodes, 4.000 ms together"),
    ]


def test_folded_stacks() -> None:
    assert to_folded(made()) == ("m;loop 200\nm;loop;mul< 300\nm;grad 300\nm;grad;mul/grad 100\n")


def test_the_command(command: Command) -> None:
    words = ("profile", "power.onnx.txt", "n=3", "--runs", "1")
    result = command(*words, "--svg", "flame.svg", "--folded", "stacks", "--json")
    assert (result.status, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["model"], document["runs"]) == ("power.onnx.txt", 1)
    assert {node["name"]: node["count"] for node in document["nodes"]}["u"] == 3
    assert Path("flame.svg").read_text().startswith("<svg ")
    assert Path("stacks").read_text().startswith("power;")
    result = command(*words, "--svg", "flame.svg")
    assert (result.status, result.out) == (1, "")
    assert "flame.svg' exists" in result.err


def test_what_is_refused() -> None:
    model = ir.from_onnx_text(MODEL)
    with pytest.raises(ArgumentError) as error:
        whileback.profile(model, {"n": 1}, runs=0)
    assert str(error.value) == "runs=0 is no number of runs. Give one from 1."
    with pytest.raises(ArgumentError, match="no input 'z'"):
        whileback.profile(model, {"z": 1})


def test_a_run_that_is_not_noted_whole_is_refused(tmp_path: Path) -> None:
    from whileback.engines.tracing import _runs

    file = tmp_path / "profile.json"
    run = '{"cat" : "Session","dur" :5,"ts" :1,"ph" : "X","name" :"model_run","args" : {}},\n'
    node = '{"cat" : "Node","dur" :5,"ts" :1,"name" :"a_kernel_time","args" : {}},\n'
    file.write_text(f"[\n{node}{run}{node}]\n")
    with pytest.raises(EngineError) as error:
        list(_runs(file, "m"))
    assert str(error.value) == (
        "ONNX Runtime has noted no whole run of model 'm': its profiler takes a million runs of "
        "nodes, and this model makes more of them. Give inputs that make fewer trips."
    )
