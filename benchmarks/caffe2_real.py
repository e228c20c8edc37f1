"""Times a net on the real Caffe2; run by caffe2_nets.py with an interpreter that has it.

Reads one JSON line {"net", "gradient", "feeds", "seeds", "rounds"} from stdin and writes one: the
seconds of the forward net, warm; of the first run of forward and gradient in a new workspace, by
Caffe2's own generator; and of the net that whileback made, first run and warm.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace


def read(path):
    net = caffe2_pb2.NetDef()
    net.ParseFromString(Path(path).read_bytes())
    return net


def feed(arrays):
    workspace.ResetWorkspace()
    for name in arrays.files:
        workspace.FeedBlob(name, arrays[name])


def timed(net):
    start = time.perf_counter()
    workspace.RunNet(net.name)
    return time.perf_counter() - start


def first_runs(net, arrays, rounds):
    seconds = []
    for _ in range(rounds):
        feed(arrays)
        workspace.CreateNet(net)
        seconds.append(timed(net))
    return statistics.median(seconds)


def warm_runs(net, arrays, rounds):
    feed(arrays)
    workspace.CreateNet(net)
    timed(net)
    seconds = []
    for _ in range(rounds):
        for name in arrays.files:
            workspace.FeedBlob(name, arrays[name])
        seconds.append(timed(net))
    return statistics.median(seconds)


def own_gradient(net, seeds):
    wrapped = core.Net(net)
    wrapped.AddGradientOperators(seeds)
    proto = wrapped.Proto()
    del proto.external_input[:]
    return proto


def main():
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    task = json.loads(sys.stdin.readline())
    arrays = np.load(task["feeds"])
    net, gradient, rounds = read(task["net"]), read(task["gradient"]), task["rounds"]
    print(
        json.dumps(
            {
                "forward": warm_runs(net, arrays, rounds),
                "own gradient, first run": first_runs(
                    own_gradient(net, task["seeds"]), arrays, rounds
                ),
                "whileback's net, first run": first_runs(gradient, arrays, rounds),
                "whileback's net": warm_runs(gradient, arrays, rounds),
            }
        )
    )


if __name__ == "__main__":
    main()
