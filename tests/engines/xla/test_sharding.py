"""Gradients over several devices and processes equal those on one; see `spread`."""

import os
import socket
import subprocess
import sys

import pytest
from tests.judge import parse

from whileback import ArgumentError, compile

COMMAND = [sys.executable, "-m", "tests.engines.xla.spread"]


def start(*arguments: object, devices: int) -> "subprocess.Popen[str]":
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)


def printed(process: "subprocess.Popen[str]") -> list[str]:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return [line for line in out.splitlines() if not line.startswith("[Gloo]")]


def test_over_the_devices_of_a_process():
    assert printed(start(devices=4)) == [
        "auto eager",
        "auto jit",
        "explicit eager",
        "explicit jit",
        "shard_map",
        "explicit trainer",
        "8 rows {'x': (2, 4), 'label': (2,), 'b': (4,)}",
        "7 rows {'x': (7, 4), 'label': (7,), 'b': (4,)}",
    ]


def test_over_two_processes():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for number, process in enumerate([start(0, port, devices=1), start(1, port, devices=1)]):
        assert printed(process) == [
            "Model 'model' draws random numbers, of which each process of the mesh has others. A "
            "step of training draws the same in all: whileback.training.step().",
            f"process {number} trainer",
            f"process {number} eager",
            f"process {number} jit",
        ]


def test_what_is_no_mesh():
    with pytest.raises(ArgumentError) as caught:
        compile(parse("(float[N] x) => (float[N] y) { y = Exp(x) }"), "xla", mesh=4)
    assert str(caught.value) == (
        "mesh= is 'int'; give a jax.sharding.Mesh, such as "
        "jax.make_mesh((jax.device_count(),), ('data',))."
    )
