"""Tangents of RNN, GRU and LSTM: a loop over their steps that keeps nothing of them."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest
from tests.gradient.rules.rnn.layers import OUTPUTS, judge_tangents, layer
from tests.judge import parse
from tests.judge_forward import assert_tangents

from whileback.checking.twin import float64_twin
from whileback.engines import compile
from whileback.gradient import jvp, names, vjp
from whileback.graph.scopes import is_loop, loop_view, walk

KINDS = ["RNN", "GRU", "LSTM"]
ATTRIBUTES = [
    ("RNN", "clip = 0.7"),
    ("GRU", "clip = 0.7"),
    ("GRU", "linear_before_reset = 1"),
    ("GRU", "linear_before_reset = 1, clip = 0.7"),
    ("LSTM", "clip = 0.7"),
    ("LSTM", "input_forget = 1"),
]


@pytest.mark.parametrize("lengths", [None, [2, 4, 1]])
@pytest.mark.parametrize("given", ["", "BhcP"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", KINDS)
def test_inputs_directions_and_lengths(
    operator: str, direction: str, given: str, lengths: list[int] | None
) -> None:
    judge_tangents(operator, given, direction=direction, lengths=lengths)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("operator", "attributes"), ATTRIBUTES)
def test_attributes(operator: str, attributes: str, direction: str) -> None:
    judge_tangents(operator, "BhcP", attributes, direction=direction, lengths=[3, 4, 1])


def test_activations() -> None:
    parameters = "activation_alpha = [0.3, 0.7, 1.1, 0.8], activation_beta = [0.4, 0.9, 0.1]"
    functions = ["HardSigmoid", "elu", "SOFTSIGN", "Softplus", "ScaledTanh", "Affine"]
    for operator, count in (("RNN", 2), ("GRU", 4), ("LSTM", 6)):
        chosen = ", ".join(f'"{name}"' for name in functions[-count:])
        judge_tangents(
            operator, "Bhc", f"activations = [{chosen}], {parameters}", direction="bidirectional"
        )


@pytest.mark.parametrize("operator", KINDS)
@pytest.mark.parametrize("kind", ["symbols", "unknown"])
def test_shapes(kind: str, operator: str) -> None:
    judge_tangents(operator, kind=kind)
    judge_tangents(operator, "BcP", kind=kind, lengths=[4, 2, 3], direction="bidirectional")


@pytest.mark.parametrize("operator", KINDS)
def test_each_output(operator: str) -> None:
    for output in OUTPUTS[operator]:
        judge_tangents(operator, outputs=output, direction="reverse")
        judge_tangents(operator, outputs=output, steps=1, batch=1)


@pytest.mark.parametrize("operator", KINDS)
def test_second_order(operator: str) -> None:
    """The jvp of the vjp, which is a product with the Hessian, and the jvp of the jvp."""
    text, of, wrt = layer(operator, "BhcPn", direction="bidirectional"), OUTPUTS[operator], ["X"]
    wrt += ["R", "P"] if operator == "LSTM" else ["R", "h"]
    inputs = {"n": np.array([3, 4, 1], np.int32)}
    slopes, pushed = vjp(parse(text), of, wrt), jvp(parse(text), of, wrt)
    assert_tangents(slopes, [names(slopes)[x] for x in wrt], wrt, inputs)
    assert_tangents(pushed, [names(pushed)[y] for y in of], wrt, inputs)


def frames(model: ir.Model) -> list[int]:
    """Return how many stacks each loop writes."""
    return [len(loop_view(node).scan_outputs) for node in walk(model.graph) if is_loop(node)]


@pytest.mark.parametrize("kind", ["known", "symbols", "unknown"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", KINDS)
def test_nothing_of_the_steps_is_kept(operator: str, direction: str, kind: str) -> None:
    """One loop for each direction, which writes no stack but that of the tangents of Y."""
    sides = 2 if direction == "bidirectional" else 1
    for output in OUTPUTS[operator]:
        text = layer(operator, "Bhc", direction=direction, outputs=output, kind=kind)
        model = jvp(parse(text), [output], ["X", "W", "R", "h"])
        assert frames(model) == [int(output == "Y")] * sides
        assert [node.op_type for node in model.graph].count(operator) == 1
    text = layer(operator, "Bhc", direction=direction, kind=kind)
    assert frames(jvp(parse(text), OUTPUTS[operator], ["X", "W"])) == [1] * sides


def run(model: ir.Model, lengths: list[int], steps: int = 4) -> dict[str, np.ndarray]:
    """Return what a model of three sequences computes of ones."""
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        sizes = {"T": steps, "N": 3}
        assert value.name is not None and value.shape is not None
        shape = [dim if isinstance(dim, int) else sizes[str(dim.value)] for dim in value.shape]
        feeds[value.name] = np.ones(shape, np.float32)
    if "n" in feeds:
        feeds["n"] = np.array(lengths, np.int32)
    return dict(compile(model, threads=1)(feeds))


@pytest.mark.parametrize("operator", KINDS)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_no_steps(direction: str, operator: str) -> None:
    """ONNX Runtime gives zeros as the last states of a sequence of no steps.

    Of no steps at all, too; its GRU without lengths ends the process then.
    """
    of = OUTPUTS[operator]
    for given in ("Bhcn", "Bhc")[: 1 + (operator != "GRU")]:
        text = layer(operator, given, kind="symbols", direction=direction)
        model = jvp(parse(text), of, ["X", "R", "h"])
        results = run(model, [0, 4, 4])
        for name in of[1:] if "n" in given else ():
            for each in (name, names(model)[name]):
                assert not results[each][:, 0].any()
                assert results[each][:, 1:].all()
        results = run(model, [0, 0, 0], steps=0)
        for name in of:
            assert results[f"{name}_tangent"].shape == results[name].shape
            assert not results[f"{name}_tangent"].any()


@pytest.mark.parametrize("operator", KINDS)
def test_what_lies_past_the_end_of_a_sequence_is_not_read(operator: str) -> None:
    model = jvp(parse(layer(operator, "Bn")), OUTPUTS[operator], ["X", "W"])
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {"n": np.array([2, 4, 1], np.int32)}
    for value in model.graph.inputs:
        if value.name != "n":
            assert value.name is not None and value.shape is not None
            feeds[value.name] = rng.normal(size=value.shape.numpy()).astype(np.float32)
    want = compile(model, threads=1)(feeds)
    for sequence, length in enumerate([2, 4, 1]):
        feeds["X"][length:, sequence] = feeds["X_tangent"][length:, sequence] = np.nan
    got = compile(model, threads=1)(feeds)
    for name in OUTPUTS[operator]:
        np.testing.assert_array_equal(got[f"{name}_tangent"], want[f"{name}_tangent"])


@pytest.mark.parametrize("operator", KINDS)
def test_batch_first(operator: str) -> None:
    """ONNX Runtime refuses `layout=1`: its tangents are those of the other layout, transposed."""
    text = layer(operator, "Bhc", direction="bidirectional")
    first = text.replace("hidden_size", "layout = 1, hidden_size")
    first = re.sub(r"\[(\d),3(,\d\] [Xhc])", r"[3,\1\2", first)
    wrt = [name for name in ("X", "W", "R", "h", "c") if f"] {name}" in text]
    plain, swapped = (jvp(parse(each), OUTPUTS[operator], wrt) for each in (text, first))
    rng = np.random.default_rng(0)
    feeds = {
        str(value.name): rng.normal(size=value.shape.numpy())  # type: ignore[union-attr]
        for value in plain.graph.inputs
    }
    moved = {
        name: value.swapaxes(0, 1) if name[0] in "Xhc" else value for name, value in feeds.items()
    }
    want, got = (
        compile(float64_twin(model), optimization="disabled", threads=1)(arguments)
        for model, arguments in ((plain, feeds), (swapped, moved))
    )
    for name in OUTPUTS[operator]:
        tangent = want[f"{name}_tangent"]
        tangent = tangent.transpose(2, 0, 1, 3) if name == "Y" else tangent.swapaxes(0, 1)
        np.testing.assert_allclose(got[f"{name}_tangent"], tangent, rtol=1e-12, atol=1e-12)


def test_layers_in_loops_and_branches() -> None:
    model = """(int64 n, bool p, float[2,1,2] x, float[1,4,2] W, float[1,4,4] R, float[1,1,4] h)
      => (float[1,1,4] y, float[S,2,1,1,4] all) {
      y, all = Loop(n, , h) <body = body (int64 i, bool c, float[1,1,4] v)
        => (bool go, float[1,1,4] u, float[2,1,1,4] rows) {
        go = Identity(c)
        rows, u = If(p) <
          then_branch = t () => (float[2,1,1,4] a, float[1,1,4] b)
            { a, b = RNN<hidden_size = 4>(x, W, R, , , v) },
          else_branch = e () => (float[2,1,1,4] d, float[1,1,4] f)
            { d, f = RNN<hidden_size = 4, direction = "reverse">(x, W, R, , , v) }>
      }>
    }"""
    for p in (True, False):
        assert_tangents(model, ["y", "all"], ["x", "R", "h"], {"n": 2, "p": p})
