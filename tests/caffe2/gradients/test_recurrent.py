"""The gradient of RecurrentNetwork in Caffe2's operators: as recorded, or right."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.golden.cases import DATA, Case, difference
from tests.caffe2.operators.makers import check_maker, operator

from whileback.caffe2.gradients import add_gradient_operators
from whileback.caffe2.workspace import Workspace
from whileback.errors import NoGradientError
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

RECORDED = [Case(path) for path in sorted(DATA.glob("op_recurrent_*"))]
RNG = np.random.default_rng(4)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.name)
def test_gradients_are_as_recorded(case: Case) -> None:
    net, gradients = add_gradient_operators(case.forward_net(), case.meta["seeds"])
    ws = Workspace()
    for name, array in case.arrays("feeds.npz").items():
        ws.feed(name, array)
    ws.run(net)
    recorded = case.arrays("fetches.npz")
    compared = 0
    for blob, gradient in case.meta["gradient_map"].items():
        if gradient in recorded:
            assert difference(ws.fetch(gradients[blob]), recorded[gradient]) is None, blob
            compared += 1
    assert compared >= 8


def random(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


FEEDS = {"x": random(4, 2, 3), "h0": random(1, 2, 3), "g0": random(1, 2, 3), "w": random(3)}

# h ← tanh(w·h)·x, g ← g + h: the state g is made of the other one, and passes by.
STEP = [
    operator("Mul", ["h", "w"], ["a"], broadcast=1),
    operator("Tanh", ["a"], ["b"]),
    operator("Mul", ["b", "x_t"], ["h_new"]),
    operator("Sum", ["g", "h_new"], ["g_new"]),
]


def network(step: list[OperatorDef], starts: tuple[int, int] = (1, 2)) -> OperatorDef:
    """A RecurrentNetwork with two states."""
    op = operator(
        "RecurrentNetwork",
        ["x", "h0", "g0", "w"],
        ["h_all", "h_last", "g_all", "g_last", "steps"],
        recurrent_states=["hs", "gs"],
        initial_recurrent_state_ids=list(starts),
        alias_src=["hs", "hs", "gs", "gs"],
        alias_dst=["h_all", "h_last", "g_all", "g_last"],
        alias_offset=[1, -1, 1, -1],
        link_internal=["h", "h_new", "g", "g_new", "x_t"],
        link_external=["hs", "hs", "gs", "gs", "x"],
        link_offset=[0, 1, 0, 1, 0],
        timestep="t",
        param=[3],
        backward_link_internal=["unused"],
        backward_link_external=["unused"],
        backward_link_offset=[0],
    )
    op.arg.add(name="step_net").n.CopyFrom(NetDef(name="step", op=step, external_input=READ))
    # What Caffe2 makes in its place lacks a part, and is not used.
    op.arg.add(name="backward_step_net").n.CopyFrom(NetDef(name="back", op=step))
    return op


READ = ["x_t", "t", "h", "g", "w"]


@pytest.mark.parametrize(
    "of", [["h_all"], ["g_all"], ["g_last"], ["h_last", "g_all"], ["h_all", "h_last", "g_last"]]
)
def test_a_state_that_is_made_of_another_one(of: list[str]) -> None:
    check_maker(network(STEP), FEEDS, ["x", "h0", "g0", "w"], of=of)


def test_a_step_that_overwrites_what_its_gradient_reads() -> None:
    step = [
        operator("Mul", ["h", "w"], ["a"], broadcast=1),
        operator("Mul", ["a", "a"], ["b"]),
        operator("Tanh", ["a"], ["a"]),
        operator("Mul", ["a", "b"], ["a"]),
        operator("Sum", ["a", "x_t"], ["h_new"]),
        operator("Mul", ["g", "h_new"], ["g_new"]),
    ]
    check_maker(network(step), FEEDS, ["x", "h0", "g0", "w"], of=["h_all", "g_all"])


def test_two_states_with_one_start() -> None:
    feeds = {name: array for name, array in FEEDS.items() if name != "g0"}
    op = network(STEP, starts=(1, 1))
    op.input[2] = "x"
    check_maker(op, feeds, ["h0", "w"], of=["h_last", "g_last"])


def test_inputs_that_are_overwritten_after_the_network() -> None:
    net = NetDef(name="n", op=[network(STEP), operator("Tanh", ["w"], ["w"])])
    net.op.append(operator("Tanh", ["x"], ["x"]))
    result, gradients = add_gradient_operators(net, {"g_last": "seed"}, ["x", "w"])
    plain, expected = add_gradient_operators(
        NetDef(name="n", op=net.op[:1]), {"g_last": "seed"}, ["x", "w"]
    )
    found = []
    for each, names in ((result, gradients), (plain, expected)):
        ws = Workspace()
        for name, array in {**FEEDS, "seed": FEEDS["h0"]}.items():
            ws.feed(name, array)
        ws.run(each)
        found.append([ws.fetch(names[blob]) for blob in ("x", "w")])
    np.testing.assert_array_equal(*[np.concatenate([a.ravel() for a in each]) for each in found])


def test_a_network_for_the_forward_pass_alone() -> None:
    op = network(STEP)
    del op.arg[-1]
    with pytest.raises(NoGradientError) as caught:
        add_gradient_operators(NetDef(name="n", op=[op]), ["g_last"])
    assert str(caught.value) == (
        "RecurrentNetwork (writes 'h_all') keeps no steps, which its gradient needs: it has no "
        "'backward_step_net'. Build it with forward_only=False."
    )


def test_the_gradient_of_a_sequence_is_called_as_caffe2_needs_it() -> None:
    net = NetDef(name="n", op=[network(STEP), operator("Tanh", ["x"], ["y"])])
    net.op.append(operator("Tanh", ["x"], ["x"]))
    result, gradients = add_gradient_operators(net, {"g_last": "seed", "y": "y_seed"}, ["x"])
    (op,) = [op for op in result.op if op.type == "RecurrentNetworkGradient"]
    assert op.output[0] == f"{op.input[1]}_grad"
    ws = Workspace()
    for name, array in {**FEEDS, "seed": FEEDS["h0"], "y_seed": FEEDS["x"]}.items():
        ws.feed(name, array)
    ws.run(result)
    parts = ws.fetch(op.output[0]) + FEEDS["x"] * (1 - np.tanh(FEEDS["x"]) ** 2)
    np.testing.assert_allclose(ws.fetch(gradients["x"]), parts, rtol=1e-5, atol=1e-6)
