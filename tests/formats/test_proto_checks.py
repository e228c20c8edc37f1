"""What is refused before a ModelProto becomes a model: each rule, its whole message."""

import time
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from whileback.errors import FormatError, GraphError, UnsupportedError, WhilebackError
from whileback.formats.external_data import DataFolder
from whileback.formats.proto_checks import MAX_NESTING, check_model

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float[2] w = {1.5, -2}> {
   c = Constant <value = float[2] {1, 2}> ()
   y = Mul(x, w)
}"""


def model(text: str = MODEL) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def refusal(proto: onnx.ModelProto, error: type[WhilebackError] = FormatError) -> str:
    with pytest.raises(error) as caught:
        check_model(proto, None)
    assert caught.type is error
    return str(caught.value)


def nested(depth: int) -> onnx.ModelProto:
    """Return an If in an If in an If …, `depth` graphs deep, built in place."""
    proto = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    graph = proto.graph
    graph.name = "g0"
    graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    for i in range(depth):
        output = graph.output.add(name=f"z{i}")
        output.type.sequence_type.elem_type.tensor_type.shape.dim.add().dim_value = 1
        node = graph.node.add(op_type="If", input=["c"], output=[f"z{i}"])
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.name = f"g{i + 1}"
    constant = graph.node.add(op_type="Constant", output=["q"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(
        helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])
    )
    constant.metadata_props.add(key="a", value="b")
    output = graph.output.add(name="q")
    output.type.sequence_type.elem_type.tensor_type.shape.dim.add().dim_value = 1
    return proto


def test_a_good_model_passes() -> None:
    check_model(model(), None)


def test_no_graph() -> None:
    assert refusal(onnx.ModelProto(ir_version=8)) == (
        "holds no graph, so it is no ONNX model; check that this is the file"
    )


def test_no_opset() -> None:
    proto = model()
    del proto.opset_import[:]
    assert refusal(proto) == "imports no opset; the file is truncated, write it again"


@pytest.mark.parametrize("version", [3, onnx.IR_VERSION])
def test_ir_versions_that_are_read(version: int) -> None:
    proto = model()
    proto.ir_version = version
    check_model(proto, None)


def test_ir_versions_that_are_not() -> None:
    proto = model()
    proto.ir_version = 2
    assert refusal(proto, UnsupportedError) == (
        "IR version 2 is older than 3, the oldest that is read; export the model again"
    )
    proto.ir_version = 99
    assert refusal(proto, UnsupportedError) == (
        f"IR version 99 is newer than {onnx.IR_VERSION}, the newest that the installed onnx "
        f"{onnx.__version__} knows; upgrade the package onnx"
    )


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("in_function", [False, True])
def test_opsets(domain: str, in_function: bool) -> None:
    proto = model()
    function = proto.functions.add(name="f", domain="local")
    (function if in_function else proto).opset_import.add(domain=domain, version=7)
    check_model(proto, None)
    (function if in_function else proto).opset_import[-1].version = 6
    assert refusal(proto, UnsupportedError) == (
        "opset 6 of ai.onnx is older than 7, the oldest that is read; convert it with "
        "onnx.version_converter.convert_version, or export the model again"
    )
    (function if in_function else proto).opset_import[-1].version = 999
    assert refusal(proto, UnsupportedError) == (
        f"opset 999 of ai.onnx is newer than {onnx.defs.onnx_opset_version()}, the newest that "
        f"the installed onnx {onnx.__version__} knows; upgrade the package onnx"
    )


def test_other_domains_have_their_own_numbers() -> None:
    proto = model()
    proto.opset_import.add(domain="ai.onnx.ml", version=1)
    check_model(proto, None)


@pytest.mark.parametrize("where", ["initializer", "attribute"])
def test_a_huge_tensor_without_data(where: str) -> None:
    proto = model()
    tensor = proto.graph.initializer[0] if where == "initializer" else constant(proto)
    tensor.dims[:] = [2**40]
    named = {
        "initializer": "initializer 'w' of graph 'g'",
        "attribute": "attribute 'value' of node 'c' (Constant) in graph 'g'",
    }
    started = time.perf_counter()
    assert refusal(proto) == (
        f"{named[where]}: FLOAT[1099511627776] needs 1099511627776 entries of float_data, "
        "and the file holds 2; it is damaged, write the model again"
    )
    assert time.perf_counter() - started < 1


def constant(proto: onnx.ModelProto) -> onnx.TensorProto:
    return proto.graph.node[0].attribute[0].t


def test_a_huge_product_of_dimensions() -> None:
    proto = model()
    proto.graph.initializer[0].dims[:] = [0, 2**62]
    assert refusal(proto) == (
        "initializer 'w' of graph 'g': FLOAT[0,4611686018427387904] is larger than any memory; "
        "write the model again"
    )


def test_a_negative_dimension() -> None:
    proto = model()
    proto.graph.initializer[0].dims[:] = [-1, -2]
    assert refusal(proto) == (
        "initializer 'w' of graph 'g': FLOAT[-1,-2] has a negative dimension; write the model again"
    )


@pytest.mark.parametrize("size", [0, 7, 9, 16])
def test_raw_data_of_another_size(size: int) -> None:
    proto = model()
    proto.graph.initializer[0].raw_data = bytes(size)
    assert refusal(proto) == (
        f"initializer 'w' of graph 'g': FLOAT[2] needs 8 bytes of raw_data, and the file holds "
        f"{size}; it is damaged, write the model again"
    )


def test_data_in_the_field_of_another_type() -> None:
    proto = model()
    proto.graph.initializer[0].data_type = TensorProto.INT64
    assert refusal(proto) == (
        "initializer 'w' of graph 'g': INT64[2] needs 2 entries of int64_data, and the file "
        "holds 0; it is damaged, write the model again"
    )


@pytest.mark.parametrize("dtype", [t for t in TensorProto.DataType.values() if t != 0])
@pytest.mark.parametrize("raw", [False, True])
def test_every_data_type_in_every_form(dtype: int, raw: bool) -> None:
    if raw and dtype == TensorProto.STRING:
        return
    proto = model()
    if raw:
        bits = 128 if dtype == TensorProto.COMPLEX128 else 64
        data = bytes(3 * bits // 8)
        sizes = [n for n in range(len(data) + 1) if accepts(dtype, data[:n])]
        assert len(sizes) == 1
    else:
        values = [b"a", b"b", b"c"] if dtype == TensorProto.STRING else [0, 1, 1]
        proto.graph.initializer[0].CopyFrom(helper.make_tensor("w", dtype, [3], values))
        check_model(proto, None)
        proto.graph.initializer[0].dims[:] = [30]
        assert "needs" in refusal(proto)


def accepts(dtype: int, data: bytes) -> bool:
    proto = model()
    proto.graph.initializer[0].CopyFrom(
        TensorProto(name="w", data_type=dtype, dims=[3], raw_data=data)
    )
    try:
        check_model(proto, None)
    except FormatError:
        return False
    return True


def test_data_types_unknown_or_missing() -> None:
    proto = model()
    proto.graph.initializer[0].data_type = 99
    assert refusal(proto) == (
        "initializer 'w' of graph 'g': data type 99 is not one that the installed onnx "
        f"{onnx.__version__} knows; upgrade the package onnx"
    )
    proto.graph.initializer[0].data_type = 0
    assert refusal(proto) == (
        "initializer 'w' of graph 'g': its data type is missing; write the model again"
    )


def test_an_initializer_without_a_name() -> None:
    proto = model()
    proto.graph.initializer[0].name = ""
    assert refusal(proto, GraphError) == ("initializer 0 of graph 'g' has no name; give it one")


def test_names_written_twice() -> None:
    proto = model(MODEL.replace("c = Constant", "y = Constant"))
    assert refusal(proto, GraphError) == (
        "'y' of graph 'g' is written twice: it is an output of node 'y' (Constant), and then an "
        "output of node 'y' (Mul); rename one of them"
    )
    proto = model(MODEL.replace("y = Mul", "[n] x = Mul"))
    assert refusal(proto, GraphError) == (
        "'x' of graph 'g' is written twice: it is an input or initializer, and then an output of "
        "node 'n' (Mul); rename one of them"
    )


def test_inputs_and_initializers_given_twice() -> None:
    proto = model()
    proto.graph.initializer.append(proto.graph.initializer[0])
    assert refusal(proto, GraphError) == (
        "'w' is twice an initializer of graph 'g'; rename one of them"
    )
    proto = model()
    proto.graph.input.append(proto.graph.input[0])
    assert refusal(proto, GraphError) == "'x' is twice an input of graph 'g'; rename one of them"


def test_an_initializer_may_be_an_input_too() -> None:
    proto = model()
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    check_model(proto, None)


def test_a_function_output_that_nothing_writes() -> None:
    proto = model()
    proto.functions.add(name="f", domain="local", output=["q"])
    assert refusal(proto, GraphError) == (
        "output 'q' of function local::f is written by none of its nodes"
    )


def test_sparse_tensors() -> None:
    sparse = onnx.SparseTensorProto(
        values=helper.make_tensor("s", TensorProto.FLOAT, [1], [2.0]),
        indices=helper.make_tensor("i", TensorProto.INT64, [1], [0]),
        dims=[2],
    )
    proto = model()
    proto.graph.sparse_initializer.append(sparse)
    assert refusal(proto, UnsupportedError) == (
        "sparse initializer 's' of graph 'g' is a sparse tensor, which is not read; store it dense"
    )
    for kind, value in (("sparse_tensor", sparse), ("sparse_tensors", [sparse])):
        proto = model()
        attribute = onnx.AttributeProto(name="value", **{kind: value})
        attribute.type = onnx.AttributeProto.AttributeType.Value(kind.upper())
        proto.graph.node[0].attribute[0].CopyFrom(attribute)
        assert refusal(proto, UnsupportedError) == (
            "attribute 'value' of node 'c' (Constant) in graph 'g' is a sparse tensor, "
            "which is not read; store it dense"
        )


def test_the_deepest_nesting_that_is_accepted_can_be_written_and_read() -> None:
    proto = nested(MAX_NESTING)
    check_model(proto, None)
    check_model(onnx.ModelProto.FromString(proto.SerializeToString()), None)


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 300])
def test_nesting_too_deep(depth: int) -> None:
    assert refusal(nested(depth), UnsupportedError) == (
        "graph 'g31' is nested 31 subgraphs deep, and a file holds at most 30; "
        "move inner bodies outwards"
    )


def external(**entries: str) -> onnx.ModelProto:
    proto = model()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto


def test_external_data_without_a_folder() -> None:
    assert refusal(external(location="w.bin")) == (
        "initializer 'w' of graph 'g': its data lies in the file 'w.bin', and nothing says in "
        "which folder; pass base_dir="
    )


def test_external_strings() -> None:
    proto = external(location="w.bin")
    proto.graph.initializer[0].data_type = TensorProto.STRING
    assert refusal(proto) == (
        "initializer 'w' of graph 'g': strings cannot be external data; store them in the model"
    )


@pytest.mark.parametrize("text", ["-1", "1e3", " 8", "1_0", "", "٣", "9" * 20])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_offsets_and_lengths_that_are_no_numbers(tmp_path: Path, key: str, text: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    with pytest.raises(FormatError) as caught:
        check_model(external(location="w.bin", **{key: text}), DataFolder(tmp_path))
    assert str(caught.value) == (
        f"initializer 'w' of graph 'g': external data {key} {text!r} is not a number of bytes; "
        "write the model again"
    )
