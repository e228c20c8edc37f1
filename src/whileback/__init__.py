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

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from whileback import training
    from whileback.api import check, gradient, names, save, vjp
    from whileback.checking.report import Report
    from whileback.derivatives import hessian, hvp, jacobian, jvp
    from whileback.engines import Compiled, compile
    from whileback.formats import load
    from whileback.gradient import not_differentiable, rule
    from whileback.gradient.memory.marking import implicit
    from whileback.gradient.memory.strategies import budget
    from whileback.inspection import diff, profile, show, to_html

__version__ = "0.1.0"

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

_HOMES = {
    "training": ("training",),
    "api": ("check", "gradient", "names", "save", "vjp"),
    "checking.report": ("Report",),
    "derivatives": ("hessian", "hvp", "jacobian", "jvp"),
    "engines": ("Compiled", "compile"),
    "formats": ("load",),
    "gradient": ("not_differentiable", "rule"),
    "gradient.memory.marking": ("implicit",),
    "gradient.memory.strategies": ("budget",),
    "inspection": ("diff", "profile", "show", "to_html"),
}


class _Package(ModuleType):
    """Imports what is behind a name when it is asked for: all of it takes half a second."""

    def __getattr__(self, name: str) -> Any:
        for home, found in _HOMES.items():
            if name in found:
                module = import_module(f"{__name__}.{home}")
                vars(self)[name] = module if name == home else getattr(module, name)
                return vars(self)[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        # The function has the name of a subpackage, which importing that would bind.
        if name != "gradient" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *__all__})


sys.modules[__name__].__class__ = _Package
