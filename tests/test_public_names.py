"""The public names: the same for readers of types and for programs, whatever is imported first."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import whileback


def test_every_public_name_is_declared_and_can_be_had() -> None:
    tree = ast.parse(Path(str(whileback.__file__)).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: node.module for node in imports for alias in node.names}
    assert set(whileback.__all__) <= {*homes, "__version__"}
    assert set(whileback.__all__) <= set(dir(whileback))
    for name in set(whileback.__all__) - {"__version__", "training"}:
        assert getattr(whileback, name) is getattr(sys.modules[str(homes[name])], name)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError) as caught:
        whileback.gradients  # type: ignore[attr-defined]  # noqa: B018
    assert str(caught.value) == "module 'whileback' has no attribute 'gradients'"


@pytest.mark.parametrize(
    "first",
    [
        "import whileback.gradient.registry",
        "from whileback.gradient import rule",
        "import importlib; importlib.import_module('whileback.gradient')",
        "import whileback.training",
    ],
)
def test_the_function_gradient_is_found_whatever_is_imported_first(first: str) -> None:
    code = (
        f"{first}\nimport whileback\nassert callable(whileback.gradient)\n"
        "from whileback import gradient\nassert callable(gradient) and whileback.training.step"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""


def test_no_runtime_is_imported_and_nothing_that_takes_long() -> None:
    code = "import sys, whileback; print({'onnx', 'numpy', 'onnxruntime', 'jax'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
