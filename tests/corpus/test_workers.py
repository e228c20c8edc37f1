import os
import time

from tests.corpus.workers import run


def act(task):
    kind, number = task
    if kind == "slow":
        time.sleep(60)
    if kind == "dies":
        os._exit(3)
    return number**2


def test_results_of_all_tasks():
    tasks = [("plain", number) for number in range(20)]
    assert dict(run(act, tasks, 2, 60)) == {task: task[1] ** 2 for task in tasks}


def test_no_task():
    assert list(run(act, [], 2, 60)) == []


def test_slow_and_dying_processes_are_replaced():
    tasks = [("slow", 1), ("dies", 2), ("plain", 3), ("dies", 4), ("plain", 5)]
    assert dict(run(act, tasks, 2, 0.5)) == {
        ("slow", 1): "It takes longer than 0.5 s.",
        ("dies", 2): "The process ended with code 3.",
        ("plain", 3): 9,
        ("dies", 4): "The process ended with code 3.",
        ("plain", 5): 25,
    }


def test_processes_end_when_nobody_wants_more():
    runs = run(act, [("plain", 1), ("slow", 2)], 2, 60)
    assert next(runs) == (("plain", 1), 1)
    start = time.monotonic()
    runs.close()
    assert time.monotonic() - start < 10
