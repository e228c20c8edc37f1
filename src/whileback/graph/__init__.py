"""What whileback adds to onnx-ir: emitting nodes, scopes and captures, copying, shapes, clean-up."""
