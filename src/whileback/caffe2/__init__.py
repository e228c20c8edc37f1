"""Caffe2's nets: read, run and differentiated."""
