"""How long it takes to make a gradient, and what a large external weight adds to that.

Prints CPU time and peak memory of the command for a model with an external weight of 1 GiB beside
one of 4 KiB, written into the model's folder; then, for chains of 500 to 50 000 nodes, the CPU
seconds of `whileback.gradient` and the microseconds per node.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

import whileback

SIZES = (500, 2_000, 10_000, 50_000)


def chain(count: int) -> ir.Model:
    """Return a chain of that many nodes: products with weights, activations, sums."""
    x = ir.val("x", ir.DataType.FLOAT, ["N", 8])
    value, nodes, weights = x, [], []
    for index in range(count - 1):
        if index % 4 == 0:
            tensor = ir.tensor(np.zeros((8, 8), np.float32), name=f"w{index}")
            weights.append(ir.val(f"w{index}", ir.DataType.FLOAT, [8, 8], const_value=tensor))
            node = ir.node("MatMul", [value, weights[-1]])
        else:
            inputs = {1: [value], 2: [value, value], 3: [value, x]}[index % 4]
            node = ir.node({1: "Tanh", 2: "Mul", 3: "Add"}[index % 4], inputs)
        node.outputs[0].name = f"v{index}"
        nodes.append(node)
        value = node.outputs[0]
    loss = ir.node("ReduceSum", [value], {"keepdims": 0})
    loss.outputs[0].name = "loss"
    loss.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    loss.outputs[0].shape = ir.Shape([])
    graph = ir.Graph(
        [x],
        loss.outputs,
        nodes=[*nodes, loss],
        initializers=weights,
        opset_imports={"": 21},
        name="chain",
    )
    return ir.Model(graph, ir_version=10)


def time_chains(sizes: tuple[int, ...], rounds: int) -> None:
    print("\nnodes    CPU seconds  µs per node  nodes of the result")
    for size in sizes:
        model = chain(size)
        seconds = []
        for _ in range(rounds):
            start = time.process_time()
            result = whileback.gradient(model, of="loss", wrt=["x", "w0"])
            seconds.append(time.process_time() - start)
        best = min(seconds)
        print(f"{size:<8} {best:<12.2f} {best / size * 1e6:<12.0f} {len(result.graph)}")


def write_external(folder: Path, side: int) -> Path:
    """Write `loss = sum(x·w)` with w, FLOAT[side,side] of zeros, in a sparse file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[side, side])
    weight.data_location = TensorProto.EXTERNAL
    for key, content in (("location", "w.bin"), ("length", str(side * side * 4))):
        weight.external_data.add(key=key, value=content)
    with (folder / "w.bin").open("wb") as file:
        file.truncate(side * side * 4)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0),
        ],
        "external",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, side])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


MEASURE = """
import resource, sys, time
start = time.process_time()
from whileback.cli import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{time.process_time() - start:.2f} {used:.0f}")
sys.exit(code)
"""


def time_external() -> None:
    print("external weight  CPU seconds  peak MiB  (whole command)")
    for side, label in ((32, "4 KiB"), (16_384, "1 GiB")):
        with tempfile.TemporaryDirectory() as folder:
            model = write_external(Path(folder), side)
            arguments = ["gradient", str(model), "--of", "loss", "--wrt", "x", "w", "-o"]
            arguments.append(str(model.with_name("gradient.onnx")))
            command = [sys.executable, "-c", MEASURE, *arguments]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, peak = run.stdout.split()[-2:]
            print(f"{label:<16} {seconds:<12} {peak}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 2 000 nodes only")
    quick = parser.parse_args().quick
    time_external()
    time_chains(SIZES[:2] if quick else SIZES, rounds=3)


if __name__ == "__main__":
    main()
