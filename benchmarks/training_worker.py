"""Times steps of training by one system, in a process of its own; started by `training.py`.

It reads lines `<calls> <gradients or step> <model>`, and writes for each the median of the seconds
of the calls, and the loss after them, or why there are none.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RATE = 1e-3
# Of as many calls, the loss after them is compared.
Calls = dict[str, Callable[[], float]]


def whileback_on(engine: str) -> Callable[[Path, str, int], Calls]:
    def calls(folder: Path, name: str, threads: int) -> Calls:
        import numpy as np

        import whileback
        from whileback import training

        model = whileback.load(folder / f"{name}.onnx")
        batch = dict(np.load(folder / f"{name}.npz"))
        options: dict[str, Any] = {"threads": threads} if engine == "onnxruntime" else {}
        gradients = whileback.compile(training.gradients(model, "cross-entropy"), engine, **options)
        step = training.step(model, "cross-entropy", training.adamw())
        trainer = training.Trainer(step, engine, **options)
        return {
            "gradients": lambda: float(np.asarray(gradients(batch)["loss"])),
            "step": lambda: trainer.step(batch, RATE)["loss"],
        }

    return calls


def onnxruntime_training(folder: Path, name: str, threads: int) -> Calls:
    import numpy as np
    import onnx
    import onnxruntime
    from onnxruntime.training import api, artifacts, onnxblock

    model, batch = onnx.load(folder / f"{name}.onnx"), np.load(folder / f"{name}.npz")
    kept = [t.name for t in model.graph.initializer if t.data_type == 1 and t.dims]
    trained = [each for each in kept if "running" not in each]
    made = tempfile.mkdtemp()
    artifacts.generate_artifacts(
        model,
        requires_grad=trained,
        frozen_params=[t.name for t in model.graph.initializer if t.name not in trained],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=onnxblock.optim.AdamW(eps=1e-8, weight_decay=0.01),
        artifact_directory=made,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    state = api.CheckpointState.load_checkpoint(f"{made}/checkpoint")
    module = api.Module(f"{made}/training_model.onnx", state, session_options=options)
    optimizer = api.Optimizer(f"{made}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(RATE)
    module.train()
    x, label = batch["x"], batch["label"]

    def gradients() -> float:
        # They are added to those of the call before, if it is not told to begin anew.
        module.lazy_reset_grad()
        return float(module(x, label))

    def step() -> float:
        loss = gradients()
        optimizer.step()
        return loss

    return {"gradients": gradients, "step": step}


def pytorch(folder: Path, name: str, threads: int) -> Calls:
    import numpy as np
    import torch
    from training_models import module

    torch.set_num_threads(threads)
    batch = {key: torch.from_numpy(value) for key, value in np.load(folder / f"{name}.npz").items()}
    model, loss_of = module(name), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def gradients() -> float:
        optimizer.zero_grad()
        loss = loss_of(model(batch["x"]), batch["label"])
        loss.backward()
        return float(loss.detach())

    def step() -> float:
        loss = gradients()
        optimizer.step()
        return loss

    return {"gradients": gradients, "step": step}


SYSTEMS = {
    "whileback": whileback_on("onnxruntime"),
    "whileback on XLA": whileback_on("xla"),
    "onnxruntime-training": onnxruntime_training,
    "PyTorch": pytorch,
}


def timed(call: Callable[[], float], count: int) -> tuple[float, float]:
    seconds, loss = [], 0.0
    for _ in range(count):
        begin = time.perf_counter()
        loss = call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), loss


def answer(made: dict[str, Calls | str], make: Callable[[str], Calls], line: str) -> object:
    count, kind, name = line.strip().split(" ", 2)
    if name not in made:
        try:
            made[name] = make(name)
        except Exception as error:
            made[name] = str(error).strip().splitlines()[-1]
    calls = made[name]
    return calls if isinstance(calls, str) else timed(calls[kind], int(count))


def main() -> None:
    system, folder, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    # What a library prints, also from C++, must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made: dict[str, Calls | str] = {}
    for line in sys.stdin:
        result = answer(made, lambda name: SYSTEMS[system](folder, name, threads), line)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
