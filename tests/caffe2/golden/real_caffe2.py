"""Runs nets on the real Caffe2: `python real_caffe2.py FOLDER`, with a Python 3.8 that has it.

For each NAME.pb in the folder it feeds the arrays of NAME.npz, creates the net, feeds and runs it
twice, and writes the tensors to NAME.1.npz and NAME.2.npz, or what went wrong to NAME.txt. Each net
runs in a process of its own, since Caffe2 may crash.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace


def run(path: Path) -> None:
    net = caffe2_pb2.NetDef()
    net.ParseFromString(path.read_bytes())
    net.name = net.name or path.stem
    feeds = dict(np.load(path.with_suffix(".npz"), allow_pickle=True))
    feed(feeds)
    workspace.CreateNet(net)
    for number in "12":
        feed(feeds)
        workspace.RunNet(net.name)
        np.savez(path.with_suffix(f".{number}.npz"), **tensors())


def feed(feeds: dict) -> None:
    for name, array in feeds.items():
        workspace.FeedBlob(name, array)


def tensors() -> dict:
    found = {}
    for blob in workspace.Blobs():
        try:
            content = workspace.FetchBlob(blob)
        except RuntimeError:
            continue  # It was never written.
        if isinstance(content, np.ndarray):
            found[blob] = content
    return found


def main(folder: Path) -> None:
    for path in sorted(folder.glob("*.pb")):
        process = os.fork()
        if process == 0:
            signal.alarm(20)
            try:
                run(path)
            except Exception as error:
                path.with_suffix(".txt").write_text(str(error))
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status:
            path.with_suffix(".txt").write_text(f"ended with status {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
