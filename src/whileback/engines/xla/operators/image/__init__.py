"""Lowerings of the operators of ONNX's folder `image`."""
