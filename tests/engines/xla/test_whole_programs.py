"""The conformance cases on XLA: of each, the tests that say what it is about.

`make test-xla` runs all tests of all cases.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.judge import parse
from tests.switch import run_on
from tests.whole_programs import test_case_15_guarded_branch as case_15
from tests.whole_programs import test_case_s08_untaken_endless_loop as case_s08

from whileback.engines import compile
from whileback.gradient import vjp

ESSENTIAL = {
    "01_value_used_twice": ["add_doubles_six_times", "mul_squares_three_times"],
    "02_captured_every_trip": ["one_file_serves_every_trip_count", "division"],
    "03_float_counter": ["both_trips_see_the_counter"],
    "05_zero_trips": [
        "one_file_with_and_without_trips",
        "condition_is_false_before_the_first_trip",
    ],
    "06_early_exit": ["one_trip_of_five", "compound_condition_without_a_limit"],
    "09_nested_loops": ["fixed_inner_count", "inner_count_is_the_outer_index"],
    "11_sequence_state": ["three_trips"],
    "13_if_in_loop": ["weights_of_both_branches"],
    "14_branches_with_weights": ["both_signs"],
    "15_guarded_branch": ["log", "in_a_loop"],
    "16_branches_of_different_rank": [
        "gradient_has_the_shape_of_the_input",
        "branch_that_returns_an_outer_value",
    ],
    "18_outer_initializers": ["initializer_that_is_no_input", "initializer_inside_the_branch"],
    "19_inner_names": ["input_of_a_body_hides_an_outer_value", "row_of_a_scan_hides_its_stack"],
    "20_scan_axes_and_directions": ["running_sum", "matrix"],
    "22_repeated_indices": ["one_element_twice", "negative_index", "gather_nd"],
    "23_max_pool_ties": ["first_maximum", "overlapping_windows"],
    "24_clip_and_relu_at_the_kink": ["clip_at_its_bounds", "relu", "nan_stays_nan_forward"],
    "26_pow_at_zero": ["base_zero", "exponents_zero_one_two", "negative_base"],
    "29_negative_pads": ["all_is_cropped", "crop", "both_signs"],
    "31_batch_norm_training": ["ones", "seed_that_is_not_uniform"],
    "33_types": [
        "all_four_ways_of_storing_decode_equal",
        "no_gradient_flows_through_a_boolean",
        "an_index_computed_from_a_float",
    ],
    "34_names_and_versions": ["unused_input_and_weight_have_zeros"],
    "35_unsorted_nodes": ["top_level"],
    "h01_one_value_two_results": ["carried_and_stacked", "two_outputs_of_a_branch"],
    "h02_function_named_like_an_operator": ["function_calls_the_operator_of_its_own_name"],
    "h03_clip_attributes": ["clip"],
    "h04_easily_forgotten": ["det", "one_hot", "batch_norm_at_inference"],
    "h05_undeclared_bodies": ["same_numbers_as_with_declared_shapes"],
    "h06_row_buffers": ["values_of_many_trips"],
    "h07_all_kinds_of_values": ["by_hand"],
    "h08_dynamic_layers": ["lstm_inside_a_branch", "pad_on_dynamic_sizes", "conv_inside_a_loop"],
    "h09_products_with_zeros": ["by_hand", "zero_to_the_zero"],
    "h10_quirks_of_the_runtime": ["every_output_of_a_loop_is_bound"],
    "s02_sgd_step": ["one_step"],
    "s03_equal_maxima": ["halves", "one_operand_several_times"],
    "s04_average_pool_ceil": ["ones"],
    "s05_ignored_labels": ["one_label_is_ignored", "all_are_ignored"],
    "s06_layer_norm_one_output": ["by_hand"],
    "s07_norm_of_zeros": ["zeros"],
    "s08_untaken_endless_loop": ["by_hand", "a_guard_inside_a_loop"],
    "s09_bound_of_a_while_loop": ["bounds"],
    "s10_if_loop_if": ["equals_the_unrolled_graph"],
    "s11_old_gemm": ["gradient_of_c_has_its_shape"],
    "s12_sums": ["one_operand", "three_operands_that_are_broadcast"],
    "s13_second_derivative": ["fourth_power"],
    "s14_functions": ["same_gradient_as_written_out"],
}
# No engine has a part in these: their models are only read, or refused.
NEVER_RUN = {"33_decoding", "37_path_traversal"}
# Of parameters, the last are the most telling ones, but for these cases: it is the first.
FIRST = {"s10_if_loop_if"}


def essential() -> Iterator[Any]:
    for case, names in ESSENTIAL.items():
        module = importlib.import_module(f"tests.whole_programs.test_case_{case}")
        for name in names:
            test = getattr(module, f"test_{name}")
            marks = getattr(test, "pytestmark", [])
            yield pytest.param(
                module,
                name,
                arguments(marks, 0 if case in FIRST else -1),
                marks=[mark for mark in marks if mark.name != "parametrize"],
                id=f"{case}-{name}",
            )


def arguments(marks: list[pytest.Mark], place: int) -> dict[str, Any]:
    """Return the values at one place of what each mark gives a test to choose from."""
    found: dict[str, Any] = {}
    for mark in marks:
        if mark.name == "parametrize":
            names, choices = mark.args
            names = names.replace(" ", "").split(",") if isinstance(names, str) else names
            chosen = list(choices)[place]
            found |= zip(names, chosen if len(names) > 1 else [chosen], strict=True)
    return found


@pytest.mark.parametrize(("module", "name", "given"), essential())
def test_essential(
    module: ModuleType, name: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on("xla", module, monkeypatch)
    getattr(module, f"test_{name}")(**given)


def test_no_case_is_left_out() -> None:
    files = Path(__file__).parents[2].glob("whole_programs/test_case_*.py")
    assert {path.stem.removeprefix("test_case_") for path in files} == {*ESSENTIAL, *NEVER_RUN}


def test_a_guard_holds_for_each_element_of_a_batch() -> None:
    """Case 15 under `jax.vmap`, where a select would let the NaN of log(0)'s gradient through."""
    f = compile(vjp(parse(case_15.MODEL % "Log"), ["y"], ["x"]), "xla")
    got = jax.jit(jax.vmap(lambda x: f(x=x, y_grad=jnp.ones_like(x))))(jnp.array([0.0, 2.0, -1.0]))
    np.testing.assert_allclose(got["y"], [0, np.log(2), 0], rtol=1e-6)
    np.testing.assert_allclose(got["x_grad"], [0, 0.5, 0], rtol=1e-6)


def test_no_element_of_a_batch_gets_into_an_endless_loop() -> None:
    """Case S8 under `jax.vmap`: the condition is one of each element, and none takes the loop."""
    f = compile(vjp(parse(case_s08.FIRST), "y", ["x", "w"]), "xla")
    x, w, seed = jnp.array([2.0, 3.0]), jnp.array([5.0, 7.0]), jnp.array([1.0, 10.0])
    taken = jnp.array([False, False, False])
    got = jax.jit(jax.vmap(lambda p: f(p=p, x=x, w=w, y_grad=seed)))(taken)
    assert got["x_grad"].tolist() == [[5.0, 70.0]] * 3
    assert got["w_grad"].tolist() == [[2.0, 30.0]] * 3
