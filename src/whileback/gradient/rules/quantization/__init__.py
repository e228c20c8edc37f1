"""Gradients of quantised operators: those of what they compute before they round."""
