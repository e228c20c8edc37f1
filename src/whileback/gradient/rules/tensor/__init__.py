"""Gradients of the operators that ONNX keeps under `tensor`."""
