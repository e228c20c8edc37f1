"""Gradients of the operators that ONNX keeps under `math`."""
