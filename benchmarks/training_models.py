"""The models of `training.py` in PyTorch, and as PyTorch exports them."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

BATCH, CLASSES = 32, 10
TRIPS, WIDTH = 28, 64
# Of later forms of layer normalization onnxruntime-training makes no gradients.
OPSET = 14

LOOP = """
<ir_version: 8, opset_import: ["": 17]>
rnn (float[T,N,28] x) => (float[N,10] z) {{
  axes = Constant <value_ints = [0]> ()
  steps = Shape <end = 1> (x)
  trips = Squeeze (steps, axes)
  count = Shape <start = 1, end = 2> (x)
  width = Constant <value_ints = [{width}]> ()
  size = Concat <axis = 0> (count, width)
  first = ConstantOfShape (size)
  last = Loop (trips, , first) <body = trip (int64 i, bool c, float[N,{width}] h)
                                  => (bool d, float[N,{width}] u) {{
    d = Identity (c)
    row = Gather (x, i)
    a = MatMul (row, win)
    b = MatMul (h, wrec)
    s = Sum (a, b, bias)
    u = Tanh (s)
  }}>
  z = Gemm (last, wout, bout)
}}
"""


class Lstm(nn.Module):
    """The last output of an LSTM, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(28, 128)
        self.out = nn.Linear(128, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0][-1])


class Block(nn.Module):
    """A layer of a transformer, the mean over its outputs, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        self.out = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.block(x).mean(1))


class Rnn(nn.Module):
    """What the ONNX model `LOOP` computes."""

    def __init__(self) -> None:
        super().__init__()
        self.win = nn.Parameter(torch.randn(28, WIDTH) / 28**0.5)
        self.wrec = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.wout = nn.Parameter(torch.randn(WIDTH, CLASSES) / WIDTH**0.5)
        self.bout = nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[1], WIDTH)
        for row in x:
            h = torch.tanh(row @ self.win + h @ self.wrec + self.bias)
        return h @ self.wout + self.bout


def _mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES)
    )


def _cnn() -> nn.Module:
    stages: list[nn.Module] = []
    for before, after in ((1, 32), (32, 64)):
        stages += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        stages.append(nn.MaxPool2d(2))
    return nn.Sequential(*stages, nn.Flatten(), nn.Linear(64 * 7 * 7, CLASSES))


# A module, the shape of a batch, and along which axis its examples lie.
MODELS = {
    "MLP": (_mlp, (BATCH, 784), 0),
    "CNN": (_cnn, (BATCH, 1, 28, 28), 0),
    "LSTM": (Lstm, (TRIPS, BATCH, 28), 1),
    "transformer block": (Block, (BATCH, 32, 64), 0),
    "RNN as a Loop": (Rnn, (TRIPS, BATCH, 28), 1),
}


def module(name: str) -> nn.Module:
    """Return a model with the same first parameters each time."""
    torch.manual_seed(0)
    return MODELS[name][0]()


def export(name: str, folder: Path) -> None:
    """Write a model as `<name>.onnx` and a batch for it as `<name>.npz`."""
    _, shape, axis = MODELS[name]
    model, rng = module(name), np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    np.savez(folder / f"{name}.npz", x=x, label=rng.integers(0, CLASSES, BATCH))
    if isinstance(model, Rnn):
        _write_loop(model, folder / f"{name}.onnx")
        return
    # Dropout nodes of a model in training have outputs that onnxruntime-training knows not.
    mode = torch.onnx.TrainingMode.EVAL if isinstance(model, Block) else None
    torch.backends.mha.set_fastpath_enabled(False)
    torch.onnx.export(
        model,
        (torch.from_numpy(x),),
        folder / f"{name}.onnx",
        input_names=["x"],
        output_names=["z"],
        dynamic_axes={"x": {axis: "N"}, "z": {0: "N"}},
        opset_version=OPSET,
        dynamo=False,
        training=mode or torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
    )


def _write_loop(model: Rnn, path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    text = onnx.parser.parse_model(LOOP.format(width=WIDTH))
    held = [(name, value.detach().numpy()) for name, value in model.named_parameters()]
    text.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in held)
    onnx.save(text, path)
