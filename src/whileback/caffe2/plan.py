"""Runs plans: nets, and steps that say which of them run how often."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import ExecutionStep, NetDef, PlanDef

__all__ = ["run_plan"]

# More steps inside each other than any message can hold.
DEEPEST = 100
_UNSUPPORTED = ("only_once", "run_every_ms", "create_workspace", "num_concurrent_instances")


def run_plan(plan: PlanDef, run: Callable[[NetDef], None], stops: Callable[[str], bool]) -> None:
    """Run the steps of a plan, in their order.

    A step runs its nets or its steps `num_iter` times, once by default, or for ever until its
    `should_stop_blob` is true after one of them. What may run at the same time runs in order,
    and nets that only report do not run.

    Args:
        plan: the plan.
        run: runs a net.
        stops: tells whether a blob is true.

    Raises:
        NetDefError: a step names no net, has both nets and steps, or two reasons to end.
        UnsupportedError: a step asks for more than that.
    """
    nets = {net.name: net for net in plan.network}
    for step in plan.execution_step:
        _check(step, nets)
    for step in plan.execution_step:
        _run(step, nets, run, stops)


def _check(step: ExecutionStep, nets: dict[str, NetDef], depth: int = 0) -> None:
    where = f"Step '{step.name}'"
    _check_supported(step, where, depth)
    if step.substep and step.network:
        raise NetDefError(
            f"{where} has both nets and steps. Put the nets into a step of their own."
        )
    if step.should_stop_blob and step.HasField("num_iter"):
        raise NetDefError(f"{where} has both 'num_iter' and 'should_stop_blob'. Leave one out.")
    for name in step.network:
        if name not in nets:
            raise NetDefError(f"{where} runs net '{name}', which the plan does not have.")
    for inner in step.substep:
        _check(inner, nets, depth + 1)


def _check_supported(step: ExecutionStep, where: str, depth: int) -> None:
    if depth > DEEPEST:
        raise UnsupportedError(
            f"{where} stands inside more than {DEEPEST} steps. Flatten the plan."
        )
    for name in _UNSUPPORTED:
        if getattr(step, name):
            raise UnsupportedError(f"{where} asks for '{name}', which is not supported.")


def _run(
    step: ExecutionStep,
    nets: dict[str, NetDef],
    run: Callable[[NetDef], None],
    stops: Callable[[str], bool],
) -> None:
    parts: list[Callable[[], None]] = [
        *(partial(_run, inner, nets, run, stops) for inner in step.substep),
        *(partial(run, nets[name]) for name in step.network),
    ]
    left = step.num_iter if step.HasField("num_iter") else 1
    while parts and left > 0:
        for part in parts:
            part()
            if step.should_stop_blob and stops(step.should_stop_blob):
                return
        left -= 0 if step.should_stop_blob else 1
