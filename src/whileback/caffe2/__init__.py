"""Caffe2's nets: read, run, differentiated, built and converted; nothing of Caffe2 is needed.

>>> with NetBuilder("tanh") as net:
...     x, n, i = net.input("x"), net.input("n"), net.constant(0)
...     with net.while_():
...         with net.condition():
...             _ = net.LT(i, n)
...         _ = net.Tanh(x, out=x), net.Add(i, 1, out=i)
>>> gradient, blobs = add_gradient_operators(net.proto(), ["x"], wrt=["x"])
>>> ws = Workspace()
>>> ws.feed("x", [0.5])
>>> ws.feed("n", 3)
>>> ws.run(gradient)
>>> print(ws.fetch(blobs["x"]).round(4))
[0.5339]
"""

from whileback.caffe2.convert import convert, initial_blobs, last_versions
from whileback.caffe2.gradients import GradientMap, add_gradient_operators
from whileback.caffe2.gradients.control_gradient import (
    gen_do_gradient,
    gen_if_gradient,
    gen_while_gradient,
    rewrite_forward,
)
from whileback.caffe2.net_builder import Blob, NetBuilder
from whileback.caffe2.operators.registry import Slices
from whileback.caffe2.reading import TensorSpec
from whileback.caffe2.workspace import Workspace
from whileback.formats.caffe2 import (
    Predictor,
    is_caffe2,
    load,
    load_blobs,
    load_plan,
    load_predictor,
    save,
)
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef, PlanDef

__all__ = [
    "Blob",
    "GradientMap",
    "NetBuilder",
    "NetDef",
    "OperatorDef",
    "PlanDef",
    "Predictor",
    "Slices",
    "TensorSpec",
    "Workspace",
    "add_gradient_operators",
    "convert",
    "gen_do_gradient",
    "gen_if_gradient",
    "gen_while_gradient",
    "initial_blobs",
    "is_caffe2",
    "last_versions",
    "load",
    "load_blobs",
    "load_plan",
    "load_predictor",
    "rewrite_forward",
    "save",
]
