"""A recurrent decoder that writes until it is done: its output grows in every trip.

What it has written is one tensor that a `while` makes longer by a row at a time. How many rows
there will be is for the network to say, and the loss is of all of them.
"""

import numpy as np
import onnx
from build import to_model
from onnxscript import FLOAT, INT64, script
from onnxscript import opset21 as op

import whileback


@script()
def decoder(
    memory: FLOAT[1, 8], recur: FLOAT[8, 8], write: FLOAT[8, 3], most: INT64
) -> FLOAT["T", 3]:
    """Write rows until the first number of one is above a half, or `most` rows."""
    state = op.Tanh(memory)
    row = op.MatMul(state, write)
    text = op.Identity(row)
    rows = op.Constant(value_int=1)
    going = rows < most
    while going:
        state = op.Tanh(op.MatMul(state, recur) + op.MatMul(row, op.Transpose(write)))
        row = op.MatMul(state, write)
        text = op.Concat(text, row, axis=0)
        rows = rows + 1
        first = op.Squeeze(op.Slice(row, [0], [1], [1]))
        going = op.And(rows < most, first <= 0.5)
    written = op.Identity(text)
    return written


def model() -> onnx.ModelProto:
    """Return it as an ONNX model: inputs memory, recur, write, most; output `written`."""
    return to_model(decoder)


def inputs(most: int = 20) -> dict[str, np.ndarray]:
    """Return weights at random, and the most rows to write."""
    rng = np.random.default_rng(3)
    return {
        "memory": np.float32(rng.normal(size=(1, 8))),
        "recur": np.float32(rng.normal(0, 0.5, size=(8, 8))),
        "write": np.float32(rng.normal(0, 0.3, size=(8, 3))),
        "most": np.array(most),
    }


def main() -> None:
    """Print what is written, and the check of the gradient."""
    network = model()
    written = whileback.compile(network)(inputs())["written"]
    print(f"{len(written)} rows, the last of which is {written[-1]}\n")
    print(whileback.check(network, "written", ["memory", "recur", "write"], inputs()))


if __name__ == "__main__":
    main()
