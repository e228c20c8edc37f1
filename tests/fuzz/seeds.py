"""The files that are damaged: models, nets, data of training and its checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from google.protobuf import text_format
from google.protobuf.message import Message
from tests.caffe2.golden.cases import DATA as NETS
from tests.caffe2.gradients.random_nets import RandomNet
from tests.fuzz.models import EXTERNAL, MODELS
from tests.golden.models import MODELS as GOLDEN
from tests.judge import parse
from tests.random_models import random_model
from tests.trainer.models import data, graphs, trainer

import whileback
from whileback import training
from whileback.formats import to_proto
from whileback.formats.caffe2.caffe2_pb2 import NetDef

__all__ = ["Seed", "families", "step"]

CAFFE2 = Path(__file__).parents[1] / "formats" / "caffe2" / "data"


@dataclass(frozen=True)
class Seed:
    """A file to be damaged, and others beside it, which stay as they are.

    Attributes:
        name: what it is called.
        file: the name of the file that is damaged.
        files: what is in the folder.
        message: of which kind of message the file is, if of one.
        main: the file that is read, if not the damaged one.
    """

    name: str
    file: str
    files: dict[str, bytes]
    message: type[Message] | None = None
    main: str = ""


def _models() -> list[Seed]:
    protos = {name: onnx.parser.parse_model(text) for name, text in MODELS.items()}
    protos |= {name: to_proto(parse(text)) for name, (text, _, _) in GOLDEN.items()}
    protos |= {f"random_{k}": to_proto(parse(random_model(Random(k)))) for k in range(8)}
    loop = parse(GOLDEN["loop_recurrent"][0])
    _, of, wrt = GOLDEN["loop_recurrent"]
    protos["gradient"] = to_proto(whileback.vjp(loop, of, wrt))
    protos["step"] = to_proto(graphs("adam")[0])
    binary = {name: proto.SerializeToString() for name, proto in protos.items()}
    found = [Seed(n, "m.onnx", {"m.onnx": b}, onnx.ModelProto) for n, b in binary.items()]
    texts = {**MODELS, **{f"random_{k}": random_model(Random(k)) for k in range(8)}}
    found += [Seed(n, "m.onnx.txt", {"m.onnx.txt": t.encode()}) for n, t in texts.items()]
    weights = np.arange(8, dtype=np.float32).tobytes()
    model = onnx.parser.parse_model(EXTERNAL).SerializeToString()
    beside = {"m.onnx": model, "w.bin": weights}
    found += [Seed("external", "m.onnx", beside, onnx.ModelProto)] * 4
    return [*found, Seed("external_data", "w.bin", beside, main="m.onnx")]


def _nets() -> list[Seed]:
    def with_text(name: str, net: Message, beside: dict[str, bytes]) -> list[Seed]:
        text = text_format.MessageToString(net).encode()
        binary = {"net.pb": net.SerializeToString(), **beside}
        return [
            Seed(name, "net.pb", binary, NetDef),
            Seed(name, "net.pbtxt", {"net.pbtxt": text, **beside}),
        ]

    init = (CAFFE2 / "init_net.pb").read_bytes()
    predict = NetDef.FromString((CAFFE2 / "predict_net.pb").read_bytes())
    found = with_text("predict", predict, {"init.pb": init})
    both = {"net.pb": predict.SerializeToString(), "init.pb": init}
    found += [Seed("init", "init.pb", both, NetDef, "net.pb")]
    for file in sorted(NETS.glob("*/net.pb"))[::7]:
        if file.stat().st_size < 20000:
            found += with_text(file.parent.name, NetDef.FromString(file.read_bytes()), {})
    for k in range(6):
        found += with_text(f"random_{k}", RandomNet(k).net, {})
    for file in ("predictor.minidb", "blobs.minidb", "blob_d.pb", "blob_s.pb", "blob_u8.pb"):
        found.append(Seed(file, file, {file: (CAFFE2 / file).read_bytes()}))
    return found


@cache
def step() -> Any:
    """Return the step of training that data is read for."""
    return graphs("adam")[0]


def _written(name: str, write: Callable[[Path], Any], scratch: Path) -> Seed:
    path = scratch / name
    write(path)
    return Seed(name, name, {name: path.read_bytes()})


def _data(scratch: Path) -> list[Seed]:
    arrays = data(20)
    columns = {f"x{k}": arrays["x"][:, k] for k in range(4)} | {"label": arrays["label"]}
    rows = pa.table({"x": pa.array(arrays["x"].tolist()), "label": arrays["label"]})
    kinds: dict[str, Callable[[Path], Any]] = {
        "d.npz": lambda path: np.savez(path, **arrays),
        "packed.npz": lambda path: np.savez_compressed(path, **arrays),
        "d.csv": lambda path: pyarrow.csv.write_csv(pa.table(columns), path),
        "d.parquet": lambda path: pyarrow.parquet.write_table(rows, path),
        "d.arrow": lambda path: pyarrow.feather.write_feather(rows, str(path), "uncompressed"),
        "d.feather": lambda path: pyarrow.feather.write_feather(rows, str(path)),
        "x.npy": lambda path: np.save(path, arrays["x"]),
        "run.safetensors": lambda path: _trained().save(path),
        "plain.safetensors": lambda path: _plain(path, arrays),
    }
    return [_written(name, write, scratch) for name, write in kinds.items()]


def _trained() -> training.Trainer:
    made = trainer("reference")  # which starts no threads, which processes would not inherit
    made.step(data(), learning_rate=0.1)
    return made


def _plain(path: Path, arrays: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    save_file({"w": arrays["x"]}, path)


def families(scratch: Path) -> dict[str, list[Seed]]:
    """Return the files of each kind; `scratch` is a folder in which some of them are made."""
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        return {"onnx": _models(), "caffe2": _nets(), "data": _data(scratch)}
    finally:
        shutil.rmtree(scratch)
