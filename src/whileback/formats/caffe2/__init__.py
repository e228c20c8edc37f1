"""Caffe2's files and messages: nets, operators, arguments, blobs."""
