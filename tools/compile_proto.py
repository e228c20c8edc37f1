"""Compiles formats/caffe2/caffe2.proto into the modules that are committed beside it.

Run it in an environment of its own, with the oldest compiler whose code the oldest protobuf that
onnx accepts can run: `pip install grpcio-tools==1.62.3`, then `python tools/compile_proto.py`.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parent.parent / "src"
PROTO = "whileback/formats/caffe2/caffe2.proto"


def main() -> int:
    """Write caffe2_pb2.py and caffe2_pb2.pyi; return the compiler's exit status."""
    return protoc.main(["", f"-I{SOURCE}", f"--python_out={SOURCE}", f"--pyi_out={SOURCE}", PROTO])


if __name__ == "__main__":
    sys.exit(main())
