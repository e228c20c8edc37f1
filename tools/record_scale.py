"""Record what PyTorch's `GradScaler` makes of its scale, for the tests of mixed precision.

    python tools/record_scale.py tests/training/data

Run by an interpreter that has PyTorch; the tests need only what it writes: for each of many steps,
whether its gradients were finite, and the scale after it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

SETTINGS = {"init_scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3}


def main() -> None:
    """Write `scale.npz` into a folder."""
    finite = np.random.default_rng(0).random(60) < 0.85
    scaler, w = torch.amp.GradScaler("cpu", **SETTINGS), torch.nn.Parameter(torch.ones(2))
    optimizer, scales, values = torch.optim.SGD([w], lr=0.01), [], []
    for good in finite:
        optimizer.zero_grad()
        scaler.scale((w * (1.0 if good else float("inf"))).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        values.append(w.detach().numpy().copy())
    path = Path(sys.argv[1]) / "scale.npz"
    np.savez_compressed(path, finite=finite, scales=np.array(scales, "f"), w=np.array(values))


main()
