"""What whileback adds to onnx-ir: emitting nodes, scopes, copies, shapes, clean-up."""
