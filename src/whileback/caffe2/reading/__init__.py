"""From a net to an ONNX model."""

from whileback.caffe2.reading.read import Reading, TensorSpec, read

__all__ = ["Reading", "TensorSpec", "read"]
