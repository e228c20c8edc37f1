"""What all tests share: the numbers that a runtime draws are the same in every run."""

from __future__ import annotations

import onnxruntime

# Nodes without a seed of their own draw from this one, each from its own sequence.
onnxruntime.set_seed(1)
