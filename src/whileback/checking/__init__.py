"""Checks gradients against finite differences, and says where they disagree."""
