"""Gradients of operators of ONNX Runtime's own domain; most others have definitions instead."""
