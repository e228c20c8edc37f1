"""Caffe2's nets: read, run and differentiated."""

from whileback.caffe2.workspace import Workspace

__all__ = ["Workspace"]
