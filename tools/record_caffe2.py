"""Records golden cases from the real Caffe2 (PyTorch 1.8.1), which this project does not need.

Run it in a Python 3.8 environment with `torch==1.8.1 "numpy<1.24" "protobuf<3.21" future`:

    from record_caffe2 import record
    net = core.Net("relu_twice")
    net.Relu("x", "y"); net.Relu("y", "z")
    record(net, {"x": x}, outputs=["z"], description="what it shows")

writes a folder like the others in tests/caffe2/golden/data (see the README there).
"""

import json
from pathlib import Path

import numpy as np
from caffe2.python import core, workspace

DATA = Path(__file__).resolve().parent.parent / "tests" / "caffe2" / "golden" / "data"


def record(net, feeds, outputs=(), description="", notes=(), random=(), runs=1):
    """Add the gradients of `outputs`, run the net, and write the folder named after the net.

    Args:
        net: a core.Net with forward operators only.
        feeds: arrays by blob.
        outputs: blobs to differentiate, each with a seed `<blob>_seed` of random numbers.
        description: one line on what the case shows.
        notes: further lines.
        random: blobs whose values differ from run to run.
        runs: how often to run the net.
    """
    feeds = dict(feeds)
    forward = len(net.Proto().op)
    gradients = _add_gradients(net, feeds, outputs) if outputs else {}
    _feed(feeds)
    workspace.CreateNet(net)
    for _ in range(runs):
        workspace.RunNet(net)
    fetches, uninitialized = _fetch(feeds)
    folder = DATA / net.Proto().name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "net.pb").write_bytes(net.Proto().SerializeToString())
    (folder / "net.pbtxt").write_text(str(net.Proto()))
    np.savez(folder / "feeds.npz", **feeds)
    np.savez(folder / "fetches.npz", **fetches)
    meta = {
        "name": net.Proto().name,
        "group": "operators",
        "description": description,
        "n_forward_ops": forward,
        "runs": runs,
        "seeds": {blob: blob + "_seed" for blob in outputs},
        "gradient_map": {str(k): _name(v) for k, v in gradients.items()},
        "uninitialized_blobs": uninitialized,
        "nondeterministic_blobs": list(random),
        "notes": list(notes),
        "status": "ok",
        "caffe2": "torch 1.8.1",
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


def _feed(feeds):
    workspace.ResetWorkspace()
    for name, array in feeds.items():
        workspace.FeedBlob(name, array)


def _add_gradients(net, feeds, outputs):
    """Add gradient operators to the net and seeds to the feeds; return the map of gradients."""
    _feed(feeds)
    workspace.RunNetOnce(net)
    rng = np.random.RandomState(7)
    for blob in outputs:
        shape = workspace.FetchBlob(blob).shape
        feeds[blob + "_seed"] = rng.uniform(-1, 1, shape).astype(np.float32)
    gradients = net.AddGradientOperators({blob: blob + "_seed" for blob in outputs})
    net.Proto().external_input.extend(blob + "_seed" for blob in outputs)
    return gradients


def _fetch(feeds):
    """Return the tensors that are new or changed, and the names of what was never written."""
    fetches, uninitialized = {}, []
    for blob in workspace.Blobs():
        try:
            array = workspace.FetchBlob(blob)
        except Exception:
            uninitialized.append(blob)
            continue
        if not isinstance(array, np.ndarray):
            continue
        if blob not in feeds or not np.array_equal(array, feeds[blob]):
            fetches[blob] = array
    return fetches, uninitialized


def _name(gradient):
    if isinstance(gradient, core.GradientSlice):
        return {"indices": str(gradient.indices), "values": str(gradient.values)}
    return str(gradient)
