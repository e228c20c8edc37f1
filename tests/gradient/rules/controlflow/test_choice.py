"""The cheapest choice between keeping values and computing them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from whileback.gradient.rules.controlflow.choice import Choice, Step, cheapest

Steps = Mapping[str, Step[str]]


def chosen(
    needed: Sequence[str], keeping: Mapping[str, int], makers: Mapping[str, str], steps: Steps
) -> tuple[list[str], list[str]]:
    choice = cheapest(needed, keeping, makers, steps)
    return sorted(choice.kept), sorted(choice.again)


def test_nothing_is_needed() -> None:
    assert chosen([], {"a": 5}, {}, {}) == ([], [])


def test_what_is_there_for_free_costs_nothing() -> None:
    assert chosen(["x"], {}, {}, {}) == ([], [])


def test_what_nothing_makes_is_kept() -> None:
    assert chosen(["v"], {"v": 10**12}, {}, {}) == (["v"], [])


def test_a_large_cheap_value_of_a_small_one_is_computed_again() -> None:
    keeping, makers = {"v": 2, "wide": 1000}, {"wide": "Exp"}
    assert chosen(["wide"], keeping, makers, {"Exp": Step(["v"], 10)}) == (["v"], ["Exp"])


def test_a_small_result_of_a_dear_step_is_kept() -> None:
    keeping, makers = {"v": 100, "h": 2}, {"h": "MatMul"}
    assert chosen(["h"], keeping, makers, {"MatMul": Step(["v"], 50)}) == (["h"], [])


def test_what_is_needed_in_any_case_is_paid_for_once() -> None:
    """To compute b again takes a, which is kept for another reason."""
    keeping, makers = {"a": 8, "b": 9}, {"b": "Mul"}
    steps = {"Mul": Step(["a"], 5)}
    assert chosen(["b"], keeping, makers, steps) == (["b"], [])
    assert chosen(["a", "b"], keeping, makers, steps) == (["a"], ["Mul"])


def test_a_step_makes_all_its_results_at_once() -> None:
    keeping, makers = {"a": 6, "b": 6}, {"a": "Split", "b": "Split"}
    steps = {"Split": Step(["x"], 10)}
    assert chosen(["a"], keeping, makers, steps) == (["a"], [])
    assert chosen(["a", "b"], keeping, makers, steps) == ([], ["Split"])


def test_the_narrowest_place_of_a_chain_is_kept() -> None:
    """Each of a ← b ← c ← d: b is small, and what comes after it is cheap."""
    keeping = {"a": 50, "b": 3, "c": 50, "d": 50}
    makers = {"b": "B", "c": "C", "d": "D"}
    steps = {"B": Step(["a"], 1), "C": Step(["b"], 1), "D": Step(["c"], 1)}
    assert chosen(["c", "d"], keeping, makers, steps) == (["b"], ["C", "D"])


def test_of_two_that_cost_the_same_the_one_with_fewer_steps() -> None:
    keeping, makers = {"a": 7}, {"a": "A"}
    assert chosen(["a"], keeping, makers, {"A": Step([], 7)}) == (["a"], [])


def test_long_chains_need_no_recursion() -> None:
    length = 5_000
    keeping = {f"v{i}": 10 for i in range(length)}
    makers = {f"v{i}": f"S{i}" for i in range(1, length)}
    steps = {f"S{i}": Step([f"v{i - 1}"], 1) for i in range(1, length)}
    choice = cheapest([f"v{length - 1}"], keeping, makers, steps)
    assert choice.kept == {f"v{length - 1}"}


PRICES = st.integers(0, 9)


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[list[str], dict[str, int], dict[str, str], dict[str, Step[str]]]:
    """Up to six steps of one or two results, which read values from before; some are free."""
    names = ["x", "y"]
    makers: dict[str, str] = {}
    steps: dict[str, Step[str]] = {}
    for index in range(draw(st.integers(0, 6))):
        read = draw(st.lists(st.sampled_from(names), max_size=3))
        steps[f"S{index}"] = Step(read, draw(PRICES))
        for result in range(draw(st.integers(1, 2))):
            names.append(f"v{index}{result}")
            makers[names[-1]] = f"S{index}"
    priced = draw(st.lists(st.sampled_from(names), unique=True))
    keeping = {name: draw(PRICES) for name in names if name in priced or name in makers}
    needed = draw(st.lists(st.sampled_from(names), unique=True))
    return needed, keeping, makers, steps


def cost(
    again: Sequence[str],
    needed: Sequence[str],
    keeping: Mapping[str, int],
    makers: Mapping[str, str],
    steps: Steps,
) -> int:
    """What it costs to run these steps, and to keep what nothing gives else."""
    asked_for = set(needed).union(*(steps[step].reads for step in again))
    kept = [v for v in asked_for if v in keeping and makers.get(v) not in again]
    return sum(keeping[v] for v in kept) + sum(steps[step].cost for step in again)


def subsets(steps: Steps) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(steps, n) for n in range(len(steps) + 1))


@settings(max_examples=400)
@given(problems())
def test_no_choice_of_all_is_cheaper(
    problem: tuple[list[str], dict[str, int], dict[str, str], dict[str, Step[str]]],
) -> None:
    needed, keeping, makers, steps = problem
    choice: Choice[str, str] = cheapest(needed, keeping, makers, steps)
    own = sum(keeping[v] for v in choice.kept) + sum(steps[s].cost for s in choice.again)
    assert own == cost(sorted(choice.again), needed, keeping, makers, steps)
    assert own == min(cost(again, needed, keeping, makers, steps) for again in subsets(steps))
