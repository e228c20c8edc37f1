"""What the faces for other libraries say where these are missing."""

import importlib
import sys

import pytest


def test_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "whileback.torch", raising=False)
    with pytest.raises(ImportError) as caught:
        importlib.import_module("whileback.torch")
    assert str(caught.value) == (
        "whileback.torch needs PyTorch, which is not installed. Install it with: "
        "pip install 'whileback[torch]'"
    )
