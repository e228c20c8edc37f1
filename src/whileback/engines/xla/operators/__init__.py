"""The lowerings, in files by the folders that ONNX itself uses."""
