"""RecurrentNetwork: its ONNX model is differentiable, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.golden.cases import DATA, Case

from whileback import check, compile, vjp
from whileback.caffe2.reading import TensorSpec, read
from whileback.caffe2.workspace import Workspace
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

LSTM = Case(DATA / "op_recurrent_lstm")
FEEDS = LSTM.arrays("feeds.npz")
SEEDS = LSTM.meta["seeds"]
SYMBOLIC = {"x": ("T", "N", 2), "L": ("N",), "s0": (1, "N", 3), "s1": (1, "N", 3)}


def specs(shapes: dict[str, tuple[int | str, ...]]) -> dict[str, TensorSpec]:
    given = {name: TensorSpec.of(array) for name, array in FEEDS.items() if "_seed" not in name}
    for name, shape in shapes.items():
        given[name] = TensorSpec(given[name].dtype, shape)
    return given


@pytest.mark.parametrize("shapes", [{}, SYMBOLIC], ids=["known", "symbolic"])
def test_the_model_is_differentiable(shapes: dict[str, tuple[int | str, ...]]) -> None:
    reading = read(LSTM.forward_net(), specs(shapes), outputs=list(SEEDS))
    wrt = ["x", "s0", "s1", "R/gates_t_w", "R/gates_t_b", "R/i2h_w", "R/i2h_b"]
    feeds = {name: FEEDS[name] for name in [*wrt, "L"]}
    of = list(reading.outputs.values())
    assert check(reading.model, of, wrt, feeds).ok
    gradient = compile(vjp(reading.model, of, wrt))
    seeds = {f"{reading.outputs[blob]}_grad": FEEDS[seed] for blob, seed in SEEDS.items()}
    found = gradient({**feeds, **seeds})
    recorded = LSTM.arrays("fetches.npz")
    for name in wrt:
        expected = recorded[LSTM.meta["gradient_map"][name]]
        np.testing.assert_allclose(found[f"{name}_grad"], expected, rtol=1e-4, atol=1e-6)


def test_a_sequence_may_be_empty() -> None:
    reading = read(LSTM.net(), {**specs(SYMBOLIC), **seeds_of_any_length()})
    model = compile(reading.model)
    feeds = {name: array for name, array in FEEDS.items() if name in model.inputs}
    feeds["x"] = FEEDS["x"][:0]
    feeds |= {s: FEEDS[s][:0] for s in SEEDS.values() if s.endswith("_all_seed")}
    found = {blob: model(feeds)[name] for blob, name in reading.outputs.items()}
    assert found["R/hidden_state_all"].shape == (0, 3, 3)
    np.testing.assert_array_equal(found["R/hidden_state_last"], FEEDS["s0"])
    np.testing.assert_array_equal(found["s0_grad"], FEEDS["R/hidden_state_last_seed"])
    assert not found["R/gates_t_w_grad"].any()


def seeds_of_any_length() -> dict[str, TensorSpec]:
    shapes = {seed: ("T" if "_all" in seed else 1, "N", 3) for seed in SEEDS.values()}
    return {seed: TensorSpec(ir.DataType.FLOAT, shape) for seed, shape in shapes.items()}


def changed(change: Callable[[OperatorDef], None], forward: bool = True) -> NetDef:
    net = LSTM.forward_net() if forward else LSTM.net()
    change(next(op for op in net.op if op.type == "RecurrentNetwork"))
    return net


def argument(op: OperatorDef, name: str) -> list[bytes] | list[int]:
    return next(arg.strings or arg.ints for arg in op.arg if arg.name == name)


def test_a_state_that_no_step_makes() -> None:
    def unlink(op: OperatorDef) -> None:
        for name in ("link_internal", "link_external", "link_offset"):
            del argument(op, name)[1]

    with pytest.raises(NetDefError) as caught:
        read(changed(unlink), specs({}))
    assert str(caught.value) == (
        "RecurrentNetwork (writes 'R/hidden_state_all') has no link to row 1 of state "
        "'R/R/hidden_t_prev_states'."
    )


def test_links_to_several_rows() -> None:
    def widen(op: OperatorDef) -> None:
        add_argument(op, "link_window", [1, 1, 1, 1, 2])

    with pytest.raises(UnsupportedError) as caught:
        read(changed(widen), specs({}))
    assert str(caught.value) == (
        "RecurrentNetwork (writes 'R/hidden_state_all') links several rows at once "
        "('link_window'), which is not supported."
    )


def test_a_gradient_without_the_steps() -> None:
    ws = Workspace()
    for name, array in FEEDS.items():
        ws.feed(name, array)
    net, forward = LSTM.net(), LSTM.meta["n_forward_ops"]
    ws.run(NetDef(name="forward", op=net.op[:forward]))
    with pytest.raises(NetDefError) as caught:
        ws.run(NetDef(name="backward", op=net.op[forward:]))
    assert str(caught.value) == (
        "RecurrentNetworkGradient (writes 'R/i2h_grad') needs in blob 'R/step_workspaces' what "
        "the steps of RecurrentNetwork left, which only that operator puts there. Put both into "
        "one net."
    )


def test_a_gradient_with_too_few_outputs() -> None:
    net = LSTM.net()
    gradient = next(op for op in net.op if op.type == "RecurrentNetworkGradient")
    del gradient.output[-1]
    given = {name: TensorSpec.of(array) for name, array in FEEDS.items()}
    with pytest.raises(NetDefError) as caught:
        read(net, given)
    assert str(caught.value) == (
        "RecurrentNetworkGradient (writes 'R/i2h_grad') has 4 outputs, but its arguments name 5 "
        "gradients."
    )
