"""Gradients of ONNX models, straight through their branches and loops, as ONNX models.

>>> import onnx.parser, whileback
>>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
...     power (int64 n, float x) => (float y) {
...         start = Constant <value_float = 1.0> ()
...         y = Loop (n, "", start) <body = g (int64 i, bool c, float v) => (bool d, float z) {
...             d = Identity (c)
...             z = Mul (v, x)
...         }>
...     }''')
>>> f = whileback.compile(whileback.gradient(model, of="y", wrt="x"))
>>> f(n=3, x=2.0)["x_grad"].item(), f(n=10, x=2.0)["x_grad"].item()
(12.0, 5120.0)
"""

from importlib.metadata import version

from whileback import training
from whileback.api import check, names, save, vjp
from whileback.checking.report import Report
from whileback.derivatives import hessian, hvp, jacobian, jvp
from whileback.engines import Compiled, compile
from whileback.errors import (
    ArgumentError,
    EngineError,
    FormatError,
    GraphError,
    NoGradientError,
    TrainingError,
    UnsupportedError,
    WhilebackError,
    WhilebackWarning,
)
from whileback.formats import load
from whileback.gradient import not_differentiable, rule
from whileback.gradient.memory.marking import implicit
from whileback.gradient.memory.strategies import budget
from whileback.inspection import diff, profile, show, to_html

# Last, since the function has the name of a subpackage, which an import would bind again.
from whileback.api import gradient  # isort: skip

__version__ = version("whileback")

__all__ = [
    "ArgumentError",
    "Compiled",
    "EngineError",
    "FormatError",
    "GraphError",
    "NoGradientError",
    "Report",
    "TrainingError",
    "UnsupportedError",
    "WhilebackError",
    "WhilebackWarning",
    "__version__",
    "budget",
    "check",
    "compile",
    "diff",
    "gradient",
    "hessian",
    "hvp",
    "implicit",
    "jacobian",
    "jvp",
    "load",
    "names",
    "not_differentiable",
    "profile",
    "rule",
    "save",
    "show",
    "to_html",
    "training",
    "vjp",
]
