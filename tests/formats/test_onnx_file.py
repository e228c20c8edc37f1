"""Reading and writing ONNX files: what comes back, what is refused, what is left behind."""

import os
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import TensorProto
from tests.formats.weights import MODEL, names, weight, write

import whileback
from whileback.errors import (
    FormatError,
    GraphError,
    UnsupportedError,
    WhilebackError,
)
from whileback.formats import from_proto, load, save, to_proto


def refused(path: Path, error: type[WhilebackError] = FormatError) -> str:
    """Return what `load` says about `path`, after the path itself, and check that it is quick."""
    started = time.perf_counter()
    with pytest.raises(error) as caught:
        load(path)
    assert time.perf_counter() - started < 1
    assert caught.type is error
    assert str(caught.value).startswith(f"'{path}': ")
    return str(caught.value).removeprefix(f"'{path}': ")


class TestLoad:
    def test_a_binary_file(self, tmp_path: Path) -> None:
        model = load(write(tmp_path / "m.onnx"))
        assert [node.op_type for node in model.graph] == ["Mul"]
        assert weight(model).numpy().tolist() == [1.5, -2.0]

    def test_a_path_as_text(self, tmp_path: Path) -> None:
        assert len(load(os.fspath(write(tmp_path / "m.onnx"))).graph) == 1

    @pytest.mark.parametrize("name", ["m.onnx.txt", "m.onnxtxt", "m.txt"])
    def test_a_text_file(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text(MODEL)
        assert weight(load(tmp_path / name)).numpy().tolist() == [1.5, -2.0]

    def test_ir_version_3_where_initializers_are_inputs_too(self, tmp_path: Path) -> None:
        text = MODEL.replace("8,", "3,").replace("17", "7").replace("x)", "x, float[2] w)", 1)
        model = load(write(tmp_path / "m.onnx", text))
        assert model.ir_version == 3
        assert [value.name for value in model.graph.inputs] == ["x", "w"]
        assert model.graph.inputs[1] is model.graph.initializers["w"]

    def test_external_data_stays_by_reference(self, external: Path) -> None:
        tensor = weight(load(external))
        assert isinstance(tensor, ir.ExternalTensor)
        assert (tensor.location, tensor.offset, tensor.length) == ("w.bin", 4, 8)
        assert tensor.base_dir == external.parent
        assert tensor.numpy().tolist() == [1.5, -2.0]

    def test_the_working_folder_does_not_matter(
        self, external: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(external.parent)
        model = load("m.onnx")
        monkeypatch.chdir("/")
        assert weight(model).numpy().tolist() == [1.5, -2.0]


class TestLoadRefuses:
    def test_a_missing_file(self, tmp_path: Path) -> None:
        for name in ("model.onnx", "model2.onnx", "model3.onnx", "other"):
            (tmp_path / name).touch()
        assert refused(tmp_path / "modl.onnx") == (
            "does not exist; did you mean 'model.onnx' or 'model3.onnx' or 'model2.onnx'?"
        )

    def test_a_missing_file_in_an_empty_or_missing_folder(self, tmp_path: Path) -> None:
        assert refused(tmp_path / "m.onnx") == "does not exist; its folder is empty"
        assert refused(tmp_path / "no" / "m.onnx") == (
            f"does not exist, nor does the folder '{tmp_path / 'no'}'; check the path"
        )

    def test_a_folder(self, tmp_path: Path) -> None:
        assert refused(tmp_path) == "is a folder; give the model file in it"

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert refused(tmp_path / "pipe") == "is not a regular file; give a model file"
        assert refused(Path("/dev/zero")) == "is not a regular file; give a model file"

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").touch()
        assert refused(tmp_path / "m.onnx") == "is empty; write or download it again"

    def test_a_file_too_large_for_protobuf(self, tmp_path: Path) -> None:
        with (tmp_path / "m.onnx").open("wb") as file:
            file.truncate(2**31)
        assert refused(tmp_path / "m.onnx") == (
            "has 2147483648 bytes, and Protobuf holds at most 2 GB; give the model file, "
            "not its data, or store its weights as external data"
        )

    def test_an_unreadable_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def deny(path: Path) -> bytes:
            raise PermissionError(13, "Permission denied", os.fspath(path))

        monkeypatch.setattr(Path, "read_bytes", deny)
        assert refused(write(tmp_path / "m.onnx")) == (
            "Permission denied; check the path and its permissions"
        )

    def test_other_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_bytes(b"not found\xff")
        assert refused(tmp_path / "m.onnx") == (
            "is no ONNX model, or damaged or truncated (Protobuf says: Wire format was corrupt); "
            "text form is read from .onnx.txt, .onnxtxt and .txt"
        )

    def test_a_git_lfs_pointer(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid 1\n")
        assert refused(tmp_path / "m.onnx") == (
            "is a Git LFS pointer, not the model itself; run git lfs pull"
        )

    def test_a_file_cut_off_anywhere(self, tmp_path: Path) -> None:
        data = write(tmp_path / "whole.onnx").read_bytes()
        for size in range(1, len(data)):
            (tmp_path / "m.onnx").write_bytes(data[:size])
            assert ";" in refused(tmp_path / "m.onnx")

    def test_any_byte_changed_gives_a_model_or_one_of_our_errors(self, tmp_path: Path) -> None:
        data = write(tmp_path / "whole.onnx").read_bytes()
        for i in range(len(data)):
            for byte in (0, 0x7F, 0xFF, data[i] ^ 1):
                (tmp_path / "m.onnx").write_bytes(data[:i] + bytes([byte]) + data[i + 1 :])
                try:
                    load(tmp_path / "m.onnx")
                except WhilebackError as error:
                    assert str(error).startswith(f"'{tmp_path / 'm.onnx'}': ")

    def test_a_mistake_in_text(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnxtxt").write_text(MODEL.replace("w)", "w"))
        assert refused(tmp_path / "m.onnxtxt") == (
            "line 4, column 1: Expected character ) not found; correct the text"
        )

    def test_an_opset_too_old(self, tmp_path: Path) -> None:
        path = write(tmp_path / "m.onnx", MODEL.replace("17", "6"))
        assert refused(path, UnsupportedError) == (
            "opset 6 of ai.onnx is older than 7, the oldest that is read; convert it with "
            "onnx.version_converter.convert_version, or export the model again"
        )

    def test_a_graph_error(self, tmp_path: Path) -> None:
        path = write(tmp_path / "m.onnx", MODEL.replace("y = Mul", "w = Mul"))
        assert refused(path, GraphError) == (
            "'w' of graph 'g' is written twice: it is an input or initializer, and then an output "
            "of node 'w' (Mul); rename one of them"
        )

    def test_a_huge_tensor_takes_no_memory(self, tmp_path: Path) -> None:
        proto = onnx.parser.parse_model(MODEL)
        proto.graph.initializer.add(name="z", data_type=TensorProto.FLOAT, dims=[2**40])
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        tracemalloc.start()
        message = refused(tmp_path / "m.onnx")
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
        tracemalloc.stop()
        assert message == (
            "initializer 'z' of graph 'g': FLOAT[1099511627776] needs 1099511627776 entries of "
            "float_data, and the file holds 0; it is damaged, write the model again"
        )

    def test_what_the_reader_of_onnx_ir_refuses(self, tmp_path: Path) -> None:
        proto = onnx.parser.parse_model(MODEL)
        proto.graph.node[0].attribute.add(
            name="a", type=onnx.AttributeProto.STRINGS, strings=[b"\xff"]
        )
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        assert refused(tmp_path / "m.onnx") == (
            "the model cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: "
            "invalid start byte; correct " + repr('name: "a"\nstrings: "\\377"\ntype: STRINGS\n')
        )


class TestProto:
    def test_there_and_back(self) -> None:
        proto = onnx.parser.parse_model(MODEL)
        back = to_proto(from_proto(proto, None))
        assert onnx.numpy_helper.to_array(back.graph.initializer[0]).tolist() == [1.5, -2.0]
        assert [(n.op_type, list(n.input), list(n.output)) for n in back.graph.node] == [
            ("Mul", ["x", "w"], ["y"])
        ]

    def test_external_data_stays_by_reference(self, external: Path) -> None:
        proto = onnx.load(external, load_external_data=False)
        model = from_proto(proto, external.parent)
        assert weight(model).numpy().tolist() == [1.5, -2.0]
        assert to_proto(model).graph.initializer[0] == proto.graph.initializer[0]

    def test_external_data_without_base_dir(self, external: Path) -> None:
        with pytest.raises(FormatError) as caught:
            from_proto(onnx.load(external, load_external_data=False), None)
        assert str(caught.value) == (
            "initializer 'w' of graph 'g': its data lies in the file 'w.bin', and nothing says in "
            "which folder; pass base_dir="
        )

    def test_renaming_leaves_the_proto_be(self) -> None:
        proto = onnx.parser.parse_model(MODEL)
        before = proto.SerializeToString()
        from_proto(proto, None).graph.initializers["w"].name = "v"
        assert proto.SerializeToString() == before

    def test_data_without_a_folder_is_refused(self) -> None:
        model = from_proto(onnx.parser.parse_model(MODEL), None)
        model.graph.initializers["w"].const_value = ir.ExternalTensor(
            "w.bin", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w"
        )
        with pytest.raises(FormatError) as caught:
            to_proto(model)
        assert str(caught.value) == (
            "initializer 'w' of graph 'g': its data lies in the file 'w.bin', and nothing says in "
            "which folder; set the tensor's base_dir"
        )

    def test_data_in_two_folders_is_refused(self, external: Path, tmp_path: Path) -> None:
        model = load(external)
        (tmp_path / "v.bin").write_bytes(bytes(8))
        model.graph.register_initializer(value_from(tmp_path, "v.bin"))
        with pytest.raises(FormatError) as caught:
            to_proto(model)
        assert str(caught.value) == (
            f"initializer 'v' of graph 'g': its data lies in the folder '{tmp_path}', and that of "
            f"others in '{external.parent}'; save the model to a file with external_data='copy'"
        )

    def test_a_model_that_cannot_be_serialized(self) -> None:
        model = from_proto(onnx.parser.parse_model(MODEL), None)
        model.graph.inputs[0].name = None
        with pytest.raises(FormatError) as caught:
            to_proto(model)
        assert re.sub(r"anonymous:\d+", "anonymous", str(caught.value)) == (
            "the model cannot be written: bad argument type for built-in operation; correct "
            "\"Value(name='anonymous', type=Tensor(FLOAT), shape=Shape([2]))\""
        )


def value_from(folder: Path, location: str) -> ir.Value:
    tensor = ir.ExternalTensor(
        location, 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="v", base_dir=folder
    )
    return ir.Value(name="v", const_value=tensor)


class TestSave:
    def test_there_and_back(self, tmp_path: Path) -> None:
        save(load(write(tmp_path / "m.onnx")), tmp_path / "out.onnx")
        assert weight(load(tmp_path / "out.onnx")).numpy().tolist() == [1.5, -2.0]
        assert names(tmp_path) == ["m.onnx", "out.onnx"]

    @pytest.mark.parametrize("name", ["out.onnx.txt", "out.onnxtxt", "out.txt"])
    def test_as_text(self, tmp_path: Path, name: str) -> None:
        save(load(write(tmp_path / "m.onnx")), tmp_path / name)
        assert "y = Mul (x, w)" in (tmp_path / name).read_text()
        assert weight(load(tmp_path / name)).numpy().tolist() == [1.5, -2.0]

    def test_relative_paths(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        save(load(write(tmp_path / "m.onnx")), "out.onnx")
        assert names(tmp_path) == ["m.onnx", "out.onnx"]

    def test_the_usual_permissions(self, tmp_path: Path) -> None:
        (tmp_path / "plain").touch()
        save(load(write(tmp_path / "m.onnx")), tmp_path / "out.onnx")
        assert (tmp_path / "out.onnx").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_an_existing_file(self, tmp_path: Path) -> None:
        model = load(write(tmp_path / "m.onnx"))
        (tmp_path / "out.onnx").write_bytes(b"precious")
        with pytest.raises(FormatError) as caught:
            save(model, tmp_path / "out.onnx")
        assert str(caught.value) == (
            f"'{tmp_path / 'out.onnx'}' exists; choose another name, or replace it with --force "
            "(in Python overwrite=True)"
        )
        assert (tmp_path / "out.onnx").read_bytes() == b"precious"
        save(model, tmp_path / "out.onnx", overwrite=True)
        assert len(load(tmp_path / "out.onnx").graph) == 1

    def test_a_folder_in_the_way_and_a_missing_folder(self, tmp_path: Path) -> None:
        model = load(write(tmp_path / "m.onnx"))
        for path, message in {
            tmp_path: f"'{tmp_path}' is a folder; name a file in it",
            tmp_path / "no" / "o": (
                f"'{tmp_path / 'no' / 'o'}': there is no folder '{tmp_path / 'no'}'; make it first"
            ),
        }.items():
            with pytest.raises(FormatError) as caught:
                save(model, path, overwrite=True)
            assert str(caught.value) == message

    def test_a_failure_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = load(write(tmp_path / "m.onnx"))

        def full(*args: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(FormatError) as caught:
            save(model, tmp_path / "out.onnx")
        assert str(caught.value) == (
            f"'{tmp_path / 'out.onnx'}': No space left on device; make room there"
        )
        assert names(tmp_path) == ["m.onnx"]

    def test_nesting_too_deep(self, tmp_path: Path) -> None:
        value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([]))
        graph = ir.Graph([], [], nodes=[ir.node("Identity", [value])], name="leaf")
        for _ in range(400):
            node = ir.node("If", [value], attributes={"then_branch": graph})
            graph = ir.Graph([], [], nodes=[node], name="g", opset_imports={"": 17})
        with pytest.raises(UnsupportedError) as caught:
            save(ir.Model(graph, ir_version=8), tmp_path / "out.onnx")
        assert str(caught.value) == (
            "graph 'g' is nested 31 subgraphs deep, and a file holds at most 30; "
            "move inner bodies outwards"
        )
        assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "field", "kind"),
    [(b"Sigmoid", "op_type", "NodeProto"), (b"longname", "input", "NodeProto")],
)
def test_names_that_are_no_text(text: bytes, field: str, kind: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float longname) => (float y) '
        "{ y = Sigmoid(longname) }"
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString().replace(text, b"\xff" * len(text)))
    with pytest.raises(FormatError) as error:
        load(path)
    assert f"is damaged: the '{field}' of a {kind} is b'\\xff" in str(error.value)
    assert str(error.value).endswith("', which is no UTF-8")


def test_what_is_declared_impossibly_is_unknown(tmp_path: Path) -> None:
    """ONNX Runtime takes a negative size for one that may vary."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y) '
        "<float[2] h, float[2] k> { h = Sin(x) k = Sin(h) y = Sin(k) }"
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    model.graph.value_info[0].type.tensor_type.elem_type = 0
    model.graph.value_info[1].type.tensor_type.shape.dim.add(dim_value=1)
    model.graph.value_info[1].type.tensor_type.shape.dim.extend(
        list(model.graph.value_info[1].type.tensor_type.shape.dim) * 40
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    found = load(path)
    h, k, _ = (node.outputs[0] for node in found.graph)
    assert found.graph.inputs[0].shape == [None, 2]
    assert h.type is None
    assert k.shape is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda tensor: tensor.segment.CopyFrom(onnx.TensorProto.Segment(begin=0, end=1)),
            "it is a segment of a larger tensor, which is not read; store it whole",
        ),
        (
            lambda tensor: tensor.int64_data.append(1),
            "FLOAT[2] is stored in float_data, and the file holds int64_data, too; it is damaged, "
            "write the model again",
        ),
    ],
)
def test_tensors_that_hold_something_else(
    change: Callable[[onnx.TensorProto], object], problem: str, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(MODEL)
    change(model.graph.initializer[0])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FormatError) as error:
        load(path)
    assert str(error.value) == f"'{path}': initializer 'w' of graph 'g': {problem}"


def test_a_graph_that_only_a_function_knows(tmp_path: Path) -> None:
    """An attribute may name one of a function; in the main graph it names nothing."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (bool c, float x) => (float y) '
        "{ y = If(c) <then_branch = t () => (float v) { v = Sin(x) }, "
        "else_branch = e () => (float w) { w = Cos(x) }> }"
    )
    branch = model.graph.node[0].attribute[0]
    branch.ref_attr_name = "branch"
    branch.ClearField("g")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    found = load(path)
    assert "then_branch=@branch" in whileback.show(found)
    with pytest.raises(GraphError, match="has no attribute 'then_branch', which the operator"):
        whileback.vjp(found, "y", "x")
