"""Bytes to `ir.Model` and back: ONNX files, their text form, and their external data."""

from whileback.formats.onnx_file import from_proto, load, save, to_proto

__all__ = ["from_proto", "load", "save", "to_proto"]
