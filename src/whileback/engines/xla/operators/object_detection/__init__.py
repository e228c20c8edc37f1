"""Lowerings of the operators of ONNX's folder `object_detection`."""
