"""Lowerings of the operators of ONNX's domain `ai.onnx.ml`."""
