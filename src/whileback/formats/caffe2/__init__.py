"""Caffe2's files and messages: nets, operators, arguments, blobs."""

from whileback.formats.caffe2.file import (
    Predictor,
    is_caffe2,
    load,
    load_blobs,
    load_plan,
    load_predictor,
    save,
)

__all__ = [
    "Predictor",
    "is_caffe2",
    "load",
    "load_blobs",
    "load_plan",
    "load_predictor",
    "save",
]
