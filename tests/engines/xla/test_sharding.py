"""Gradients over several devices and processes equal those on one; see `spread`."""

import os
import socket
import subprocess
import sys

COMMAND = [sys.executable, "-m", "tests.engines.xla.spread"]


def start(*arguments: object, devices: int) -> "subprocess.Popen[str]":
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)


def printed(process: "subprocess.Popen[str]") -> list[str]:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return out.splitlines()


def test_over_the_devices_of_a_process():
    assert printed(start(devices=4)) == [
        "auto eager",
        "auto jit",
        "explicit eager",
        "explicit jit",
        "shard_map",
    ]


def test_over_two_processes():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for number, process in enumerate([start(0, port, devices=1), start(1, port, devices=1)]):
        assert printed(process)[-2:] == [f"process {number} eager", f"process {number} jit"]
