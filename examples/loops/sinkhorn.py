"""Optimal transport by Sinkhorn's iteration, until the plan fits: a while loop on data.

The loop stops when the masses that it moves are those wanted, to a tolerance, so that nobody knows
its number of trips beforehand. The cost of the plan is differentiated with respect to the masses
and to what it costs to move them: through all trips, or at the solution that they come to, where
the gradient keeps nothing of them.

Source: Cuturi, "Sinkhorn distances" (2013).
"""

import numpy as np
import onnx
from build import to_model
from onnxscript import FLOAT, script
from onnxscript import opset21 as op

import whileback


@script()
def sinkhorn(cost: FLOAT["N", "M"], have: FLOAT["N"], want: FLOAT["M"], tolerance: FLOAT) -> FLOAT:
    """Return what it costs to move the masses, as shares of them all, at a temperature of 0.1."""
    here = have / op.ReduceSum(have, keepdims=0)
    there = want / op.ReduceSum(want, keepdims=0)
    kernel = op.Exp(-10.0 * cost)
    across = op.Transpose(kernel)
    right = there * 0.0 + 1.0
    off = op.ReduceSum(there, keepdims=0)
    open_ = off > tolerance
    while open_:
        left = here / op.MatMul(kernel, right)
        right = there / op.MatMul(across, left)
        moved = left * op.MatMul(kernel, right)
        off = op.ReduceSum(op.Abs(moved - here), keepdims=0)
        open_ = off > tolerance
    last = here / op.MatMul(kernel, right)
    plan = op.Unsqueeze(last, [1]) * kernel * op.Unsqueeze(right, [0])
    total = op.ReduceSum(plan * cost, keepdims=0)
    return total


def model() -> onnx.ModelProto:
    """Return it as an ONNX model: inputs cost, have, want, tolerance; output `total`."""
    return to_model(sinkhorn)


def inputs(count: int, tolerance: float = 1e-6) -> dict[str, np.ndarray]:
    """Return masses at places on a line, to be moved to as many places at random."""
    rng = np.random.default_rng(0)
    here, there = np.linspace(0, 1, count), rng.uniform(0, 1, count)
    masses = rng.uniform(0.5, 1.5, (2, count))
    have, want = masses
    return {
        "cost": np.float32((here[:, None] - there) ** 2),
        "have": np.float32(have),
        "want": np.float32(want),
        "tolerance": np.float32(tolerance),
    }


def at_the_solution(tolerance: float = 1e-6) -> onnx.ModelProto:
    """Return the gradients with respect to cost and have by the implicit function theorem."""
    transport = model()
    (loop,) = (node for node in transport.graph.node if node.op_type == "Loop")
    (body,) = (attribute.g for attribute in loop.attribute if attribute.name == "body")
    carry = whileback.implicit(body.input[2].name, tolerance=tolerance)
    return whileback.gradient(
        transport, "total", ["cost", "have"], implicit={loop.output[0]: carry}
    )


def main() -> None:
    """Print the check of the gradient, and how far the one at the solution is from it."""
    print(whileback.check(model(), "total", ["cost", "have"], inputs(6)))
    unrolled = whileback.compile(whileback.gradient(model(), "total", ["cost", "have"]))(inputs(6))
    implicit = whileback.compile(at_the_solution())(inputs(6))
    print("\nAt the solution, without a tape, the gradients differ from these by at most")
    for name in ("cost_grad", "have_grad"):
        print(f"  {name}: {np.abs(implicit[name] - unrolled[name]).max():.1e}")


if __name__ == "__main__":
    main()
