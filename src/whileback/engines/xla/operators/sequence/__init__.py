"""Lowerings of the operators of ONNX's folder `sequence`: lists, of a length that is known."""
