"""Lowerings of the operators of ONNX's folders `image` and `object_detection`."""
