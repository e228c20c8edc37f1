"""Gradients of operators on sequences: the cotangent of a sequence is one of the same length."""
