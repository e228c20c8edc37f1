"""Conformance case 37: external data never leads out of the model's folder.

Every kind of place that can hold a tensor, with every kind of location that leads elsewhere, when
a model is read and when it is saved. A file outside lies ready, large enough and of the right
values, so that a reference that were followed would succeed.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from whileback.errors import FormatError
from whileback.formats import from_proto, load, save, to_proto

MODEL = """<ir_version: 9, opset_import: ["" : 17, "l" : 1]>
g (float[4] x, bool c) => (float[4] y) <float[4] w = {1, 2, 3, 4}> {
   a = Constant <value = float[4] {1, 2, 3, 4}> ()
   n = Constant <value_int = 3> ()
   b = Loop(n, c, x) <body = body (int64 i, bool go, float[4] s) => (bool again, float[4] t)
      <float[4] v = {1, 2, 3, 4}> {
         again = Identity(go)
         k = Constant <value = float[4] {1, 2, 3, 4}> ()
         t = If(go) <then_branch = deep () => (float[4] p) {
            q = Constant <value = float[4] {1, 2, 3, 4}> ()
            p = Sum(q, s, v, k)
         }, else_branch = other () => (float[4] r) { r = Identity(s) }>
      }>
   d = l.f(b)
   y = Sum(a, d, w)
}
<domain: "l", opset_import: ["" : 17]>
f (k) => (o) {
   m = Constant <value = float[4] {1, 2, 3, 4}> ()
   o = Add(k, m)
}"""

PLACES = {
    "initializer": "initializer 'w' of graph 'g'",
    "constant": "attribute 'value' of node 'a' (Constant) in graph 'g'",
    "initializer of a body": "initializer 'v' of graph 'body'",
    "constant in a body": "attribute 'value' of node 'k' (Constant) in graph 'body'",
    "constant in a branch in a body": "attribute 'value' of node 'q' (Constant) in graph 'deep'",
    "constant in a function": "attribute 'value' of node 'm' (Constant) in function l::f",
}

# Location, offset and length, and what is wrong with them.
ATTACKS: dict[str, tuple[str, int | None, int | None, str]] = {
    "parent": ("../secret", None, None, "leads outside of the model's folder"),
    "absolute": ("/etc/hostname", None, None, "is absolute"),
    "hidden parent": ("a/../../secret", None, None, "leads outside of the model's folder"),
    "symlink": ("link", None, None, "is or passes a link that leads outside"),
    "symlinked folder": ("way/secret", None, None, "is or passes a link that leads outside"),
    "hard link": ("hard", None, None, "has 2 hard links"),
    "empty": ("", None, None, "is empty"),
    "NUL": ("w\0.bin", None, None, "holds a NUL byte"),
    "offset beyond the end": ("w.bin", 8, None, "holds 16 bytes, but FLOAT[4] is said to take 16"),
    "huge offset": ("w.bin", 2**62, None, "holds 16 bytes, but FLOAT[4] is said to take 16"),
    "length too large": ("w.bin", None, 32, "has length 32, but FLOAT[4] needs 16 bytes"),
    "length too small": ("w.bin", None, 8, "has length 8, but FLOAT[4] needs 16 bytes"),
    "missing": ("gone.bin", None, None, "does not exist in the model's folder"),
    "folder": ("a", None, None, "is not a regular file"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "model"
    (inside / "a").mkdir(parents=True)
    data = np.array([1, 2, 3, 4], np.float32).tobytes()
    (tmp_path / "secret").write_bytes(data)
    (tmp_path / "shared").write_bytes(data)
    (inside / "w.bin").write_bytes(data)
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "way").symlink_to(tmp_path)
    os.link(tmp_path / "shared", inside / "hard")
    return inside


opened: set[str] = set()


def note_opened(event: str, arguments: tuple[object, ...]) -> None:
    """Note every file that Python opens, by whichever function; a hook cannot be taken away."""
    if event == "open" and isinstance(arguments[0], str):
        opened.add(os.path.realpath(arguments[0]))


sys.addaudithook(note_opened)


@pytest.fixture(autouse=True)
def only_inside_is_opened(folder: Path, tmp_path: Path) -> Iterator[None]:
    """Fail when a file outside of the model's folder was opened."""
    opened.clear()
    yield
    assert opened.isdisjoint(map(os.fspath, (tmp_path / "secret", tmp_path / "shared")))
    assert opened.isdisjoint({"/etc/hostname", os.fspath(folder / "hard")})


def test_the_watch_sees_an_open_file(folder: Path) -> None:
    (folder / "link").read_bytes()
    assert os.fspath(folder.parent / "secret") in opened
    opened.clear()


def tensors(proto: onnx.ModelProto) -> dict[str, TensorProto]:
    """Return the tensor in each of PLACES."""
    loop = proto.graph.node[2].attribute[0].g
    branch = loop.node[2].attribute[0].g
    return {
        "initializer": proto.graph.initializer[0],
        "constant": proto.graph.node[0].attribute[0].t,
        "initializer of a body": loop.initializer[0],
        "constant in a body": loop.node[1].attribute[0].t,
        "constant in a branch in a body": branch.node[0].attribute[0].t,
        "constant in a function": proto.functions[0].node[0].attribute[0].t,
    }


def point(tensor: TensorProto, location: str, offset: int | None, length: int | None) -> None:
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": length}
    for key, value in entries.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))


def attack(place: str, location: str, offset: int | None, length: int | None) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(MODEL)
    point(tensors(proto)[place], location, offset, length)
    return proto


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("place", PLACES)
def test_refused_when_read(folder: Path, place: str, name: str) -> None:
    *reference, problem = ATTACKS[name]
    proto = attack(place, *reference)  # type: ignore[arg-type]
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    message = f"{PLACES[place]}: external data location {reference[0]!r} {problem}"
    with pytest.raises(FormatError) as caught:
        load(folder / "m.onnx")
    assert str(caught.value).startswith(f"'{folder / 'm.onnx'}': {message}")
    with pytest.raises(FormatError) as caught:
        from_proto(proto, folder)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("choice", [None, "reference", "copy"])
@pytest.mark.parametrize("where", ["model", "."])
def test_refused_when_saved(folder: Path, name: str, choice: str | None, where: str) -> None:
    *reference, problem = ATTACKS[name]
    output = folder.parent / where / "out.onnx"
    before = sorted(path.name for path in output.parent.iterdir())
    for model in models_made_by_hand(folder, *reference):  # type: ignore[arg-type]
        with pytest.raises(FormatError) as caught:
            save(model, output, external_data=choice, overwrite=True)  # type: ignore[arg-type]
        assert f": external data location {reference[0]!r} {problem}" in str(caught.value)
        with pytest.raises(FormatError) as caught:
            to_proto(model)
        assert f": external data location {reference[0]!r} {problem}" in str(caught.value)
    assert sorted(path.name for path in output.parent.iterdir()) == before


def models_made_by_hand(
    folder: Path, location: str, offset: int | None, length: int | None
) -> Iterator[ir.Model]:
    """Yield models that no reader has checked, one for each of PLACES."""
    for place in PLACES:
        proto = onnx.parser.parse_model(MODEL)
        tensors(proto)[place].name = "here"
        model = ir.from_proto(proto)
        bad = ir.ExternalTensor(
            location,
            offset,
            length,
            ir.DataType.FLOAT,
            shape=ir.Shape([4]),
            name="here",
            base_dir=folder,
        )
        assert put(model, bad)
        yield model


def put(model: ir.Model, bad: ir.ExternalTensor) -> bool:
    """Put `bad` where the tensor of its name is."""
    graphs = [*model.graphs(), *(function.graph for function in model.functions.values())]
    for graph in graphs:
        if "here" in graph.initializers:
            graph.initializers["here"].const_value = bad
            return True
        for node in graph:
            value = node.attributes.get("value")
            if value is not None and value.as_tensor().name == "here":
                node.attributes["value"] = ir.AttrTensor("value", bad)
                return True
    return False


def test_an_output_reaches_only_its_own_folder(folder: Path, tmp_path: Path) -> None:
    """A name of the output that is a link is replaced itself, not what it leads to."""
    (folder / "out.onnx").symlink_to(tmp_path / "secret")
    save(from_proto(onnx.parser.parse_model(MODEL), None), folder / "out.onnx", overwrite=True)
    assert not (folder / "out.onnx").is_symlink()
    assert (tmp_path / "secret").stat().st_size == 16


def test_sparse_tensors_are_checked_too(folder: Path) -> None:
    proto = onnx.parser.parse_model(MODEL)
    sparse = proto.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(TensorProto(name="s", data_type=TensorProto.FLOAT, dims=[4]))
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3]))
    point(sparse.values, "../secret", None, None)
    with pytest.raises(FormatError) as caught:
        from_proto(proto, folder)
    assert str(caught.value) == (
        "values of sparse initializer 's' of graph 'g': external data location '../secret' leads "
        f"outside of the model's folder; name a file in the model's folder '{folder}', relative "
        "to it"
    )


def test_the_same_model_is_read_when_its_data_lies_inside(folder: Path) -> None:
    proto = onnx.parser.parse_model(MODEL)
    for tensor in tensors(proto).values():
        point(tensor, "w.bin", 0, 16)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    save(load(folder / "m.onnx"), folder / "out.onnx")
    read = onnx.load(folder / "out.onnx", load_external_data=False)
    for tensor in tensors(read).values():
        assert tensor.external_data[0].value == "w.bin"
