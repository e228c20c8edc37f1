import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from whileback.engines.arguments import Port, bind
from whileback.errors import ArgumentError


def value(name, dtype, shape=None):
    shape = None if shape is None else ir.Shape(shape)
    return Port.of(ir.Value(name=name, type=ir.TensorType(dtype), shape=shape))


def one(dtype, shape, argument):
    return bind("m", {"x": value("x", dtype, shape)}, (), {}, {"x": argument})["x"]


def message(dtype, shape, argument):
    with pytest.raises(ArgumentError) as error:
        one(dtype, shape, argument)
    return str(error.value)


@pytest.mark.parametrize(
    ("dtype", "argument", "want"),
    [
        (ir.DataType.FLOAT, 2, np.float32(2)),
        (ir.DataType.FLOAT, 2.5, np.float32(2.5)),
        (ir.DataType.FLOAT, [1, 2.5], np.array([1, 2.5], np.float32)),
        (ir.DataType.BFLOAT16, (1.0, 2.0), np.array([1, 2], ml_dtypes.bfloat16)),
        (ir.DataType.UINT8, [1, 255], np.array([1, 255], np.uint8)),
        (ir.DataType.INT64, [], np.array([], np.int64)),
        (ir.DataType.BOOL, True, np.array(True)),
    ],
)
def test_python_values_are_converted(dtype, argument, want):
    got = one(dtype, None, argument)
    assert got.dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(got, want)


def test_strings_become_objects():
    assert one(ir.DataType.STRING, ["N"], ["a", "b"]).tolist() == ["a", "b"]
    assert one(ir.DataType.STRING, ["N"], np.array(["a"])).tolist() == ["a"]


def test_a_sequence_is_a_list_of_arrays():
    s = Port.of(ir.Value(name="s", type=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))))
    got = bind("m", {"s": s}, (), {"s": [np.ones(2, np.float32), 3.0]}, {})["s"]
    assert [item.shape for item in got] == [(2,), ()]
    with pytest.raises(ArgumentError) as error:
        bind("m", {"s": s}, (), {"s": np.ones(2, np.float32)}, {})
    assert (
        str(error.value)
        == "Input 's' is Sequence(Tensor(FLOAT)), but got 'ndarray'. Pass a list of arrays."
    )


def test_an_optional_may_be_none():
    s = Port.of(ir.Value(name="s", type=ir.OptionalType(ir.TensorType(ir.DataType.FLOAT))))
    assert bind("m", {"s": s}, (), {"s": None}, {}) == {"s": None}


def test_an_optional_may_hold_a_sequence():
    tensor = ir.TensorType(ir.DataType.FLOAT)
    s = Port.of(ir.Value(name="s", type=ir.OptionalType(ir.SequenceType(tensor))))
    got = bind("m", {"s": s}, (), {"s": [np.ones(2, np.float32), 3.0]}, {})["s"]
    assert [item.shape for item in got] == [(2,), ()]
    assert bind("m", {"s": s}, (), {"s": None}, {}) == {"s": None}


def test_float64_is_not_silently_rounded():
    assert message(ir.DataType.FLOAT, ["B", 4], np.ones((2, 4))) == (
        "Input 'x' is FLOAT[B,4], but got an array of float64 with shape (2, 4). "
        "Convert it with `astype('float32')`."
    )
    assert message(ir.DataType.FLOAT, [], np.float64(1)) == (
        "Input 'x' is FLOAT[], but got an array of float64 with shape (). "
        "Convert it with `astype('float32')`."
    )


def test_python_floats_are_no_integers():
    assert message(ir.DataType.INT64, ["N"], [1.5]) == (
        "Input 'x' is INT64[N], but got an array of float64 with shape (1,). "
        "That would lose digits."
    )


@pytest.mark.parametrize("argument", [[None, 1.5], ["1", "2"]], ids=["none", "strings"])
def test_what_is_no_number_is_refused(argument):
    kind = "object" if argument[0] is None else "str32"
    assert message(ir.DataType.FLOAT, ["N"], argument) == (
        f"Input 'x' is FLOAT[N], but got an array of {kind} with shape (2,). Pass numbers only."
    )


def test_rows_of_different_length_are_refused():
    assert message(ir.DataType.FLOAT, ["N", 2], [[1, 2], [3]]) == (
        "Input 'x' is FLOAT[N,2], and the value passed for it cannot be converted: setting an "
        "array element with a sequence. The requested array has an inhomogeneous shape after 1 "
        "dimensions. The detected shape was (2,) + inhomogeneous part."
    )


@pytest.mark.parametrize(("dtype", "number"), [("FLOAT", 1e40), ("FLOAT16", 100_000)])
def test_numbers_that_would_become_infinite_are_refused(dtype, number):
    assert message(ir.DataType[dtype], [], number) == (
        f"Input 'x' is {dtype}[], and the value passed for it cannot be converted: overflow "
        "encountered in cast."
    )


def test_values_out_of_range_are_refused():
    assert message(ir.DataType.UINT8, [], 256) == (
        "Input 'x' is UINT8[], and the value passed for it cannot be converted: "
        "Python integer 256 out of bounds for uint8."
    )


def test_rank_and_known_sizes():
    assert message(ir.DataType.FLOAT, ["B", 4], np.ones(4, np.float32)) == (
        "Input 'x' is FLOAT[B,4], but got an array of float32 with shape (4,). It must have rank 2."
    )
    assert message(ir.DataType.FLOAT, ["B", 4], np.ones((1, 3), np.float32)) == (
        "Input 'x' is FLOAT[B,4], but got an array of float32 with shape (1, 3). "
        "Axis 1 must have size 4."
    )


def test_sizes_that_nobody_named_have_no_name_in_messages():
    inputs = {"x": value("x", ir.DataType.FLOAT, ["_d0", "B_d1", 4])}
    with pytest.raises(ArgumentError, match=r"needs more inputs: 'x' FLOAT\[\?,B_d1,4\]\."):
        bind("m", inputs, (), {}, {})
    assert message(ir.DataType.FLOAT, ["_d0", "_d12"], np.ones(3, np.float32)) == (
        "Input 'x' is FLOAT[?,?], but got an array of float32 with shape (3,). It must have rank 2."
    )


def test_names():
    inputs = {
        "loss": value("loss", ir.DataType.FLOAT, ["B", 4]),
        "n": value("n", ir.DataType.INT64, []),
        "w": value("w", ir.DataType.FLOAT, [4]),
    }
    with pytest.raises(ArgumentError) as error:
        bind("m", inputs, {"w"}, {"los": 1}, {})
    assert str(error.value) == "Model 'm' has no input 'los'; did you mean 'loss'?"
    with pytest.raises(ArgumentError) as error:
        bind("m", inputs, {"w"}, {}, {})
    assert str(error.value) == (
        "Model 'm' needs more inputs: 'loss' FLOAT[B,4], 'n' INT64[]. "
        "Pass each one by keyword, or all in one mapping from names to arrays "
        "(on the command line as NAME=VALUE)."
    )
    with pytest.raises(ArgumentError) as error:
        bind("m", inputs, {"w"}, {"n": 1}, {"n": 1})
    assert str(error.value) == "Input 'n' is given both in the mapping and by keyword."


def test_a_size_of_one_that_another_input_contradicts_is_refused():
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N] x, float[N] y_grad) => (float[N] z) { z = Mul(x, y_grad) }"""
    )
    inputs = {str(each.name): Port.of(each) for each in model.graph.inputs}
    with pytest.raises(ArgumentError) as caught:
        bind("g", inputs, (), {"x": [1.0, 2.0, 3.0], "y_grad": [1.0]}, {})
    assert str(caught.value) == (
        "Model 'g' has one size 'N', but it is 3 in input 'x' (FLOAT[N]) and 1 in input 'y_grad' "
        "(FLOAT[N]). Pass arrays whose sizes agree."
    )


class Native(np.ndarray):
    """Stands for the arrays of an engine's own, which are to stay what they are."""


def test_an_engine_takes_its_own_arrays_as_they_are():
    """For an input of 64 bits they may have 32, and nothing else is converted."""

    def bound(dtype, given):
        array = np.zeros(2, given).view(Native)
        return bind("m", {"x": value("x", dtype, ["N"])}, (), {"x": array}, {}, (Native,))["x"]

    for dtype, given in (("FLOAT", "f4"), ("INT64", "i8"), ("INT64", "i4"), ("DOUBLE", "f4")):
        got = bound(ir.DataType[dtype], given)
        assert type(got) is Native
        assert got.dtype == np.dtype(given)
    for dtype, given in (("INT64", "u4"), ("INT32", "i2"), ("FLOAT", "f8"), ("FLOAT", "f2")):
        with pytest.raises(ArgumentError, match="Convert it with"):
            bound(ir.DataType[dtype], given)
    with pytest.raises(ArgumentError, match="Convert it with"):
        one(ir.DataType.INT64, ["N"], np.zeros(2, np.int32))
