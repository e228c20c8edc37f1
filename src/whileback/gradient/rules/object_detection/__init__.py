"""Gradients of the operators that ONNX keeps under `object_detection`."""
