"""Inferred shapes hold for every run: what only the run knows stays open."""

import pytest
from tests.judge import parse

from whileback.graph.shapes import Shapes, describe


def inferred(signature, body, declared=None):
    """Return the inferred type of `y`, of which the model itself says nothing unless given."""
    return describe(inferred_value(signature, body, declared))


def inferred_value(signature, body, declared=None):
    graph = parse(f"({signature}) => (float{declared or ''} y) {{ {body} }}").graph
    if declared is None:
        graph.outputs[0].shape = None
    Shapes(graph.opset_imports).infer_graph(graph)
    return graph.outputs[0]


def ints(**lists):
    return " ".join(f"{n} = Constant<value_ints = {numbers}>()" for n, numbers in lists.items())


@pytest.mark.parametrize(
    ("signature", "arguments", "wanted"),
    [
        ("float[5,3] x", ints(s=[1], e=[9], a=[0]), "FLOAT[4,3]"),
        ("float[B,3] x", ints(s=[1], e=[9], a=[0]), "FLOAT[_d0,3]"),
        ("float[B,3] x", ints(s=[0], e=[2**63 - 1], a=[0]), "FLOAT[B,3]"),
        ("float[B,3] x", ints(s=[2], e=[1], a=[0]), "FLOAT[0,3]"),
        ("float[5,3] x, int64[1] a", ints(s=[1], e=[9]), "FLOAT[_d0,_d1]"),
    ],
)
def test_slices(signature, arguments, wanted):
    assert inferred(signature, f"{arguments} y = Slice(x, s, e, a)") == wanted


def test_a_slice_in_steps_given_at_run_time():
    body = f"{ints(s=[0], e=[3], a=[1])} y = Slice(x, s, e, a, t)"
    assert inferred("float[2,3] x, int64[1] t", body) == "FLOAT[_d0,_d1]"


def test_split_sizes_given_at_run_time():
    body = "y, z = Split<axis = 1>(x, s)"
    assert inferred("float[2,3] x, int64[2] s", body) == "FLOAT[2,_d0]"
    assert inferred("float[2,3] x", f"{ints(s=[1, 2])} {body}") == "FLOAT[2,1]"


def test_a_size_that_can_be_worked_out_is_a_number():
    body = f"""n = Shape<start = 0, end = 2>(x) {ints(more=[3, -1])}
      s = Concat<axis = 0>(n, more) y = Reshape(x, s)"""
    assert inferred_value("float[2,T,12] x", body).shape[3] == 4


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("float[] x", "y = Unique<axis = 0>(x)"),
        ("float[] x", "y = Squeeze(x)"),
        ("float[] x, int64[1] s", "y = Expand(x, s)"),
        ("float[] x, bool[2] c", "y = Compress<axis = 1>(x, c)"),
        ("float[] x, int64[1] a", f"{ints(p=[1, 1])} y = Pad(x, p, , a)"),
        ("float[] x, int64[1] s", "y = Slice(x, s, s)"),
        ("float[] x, int64[2] s", "y, z = Split<axis = 1>(x, s)"),
        ("float[] x, float[4] s", "y = Resize(x, , s)"),
        ("float[5,3] x, int64[1] s", "y = Slice(x, s, s)"),
        ("float[M,5] x, int64[2] s", "y, z = Split<axis = 1>(x, s)"),
        ("float[3,5] x, float[2] s", "y = Resize(x, , s)"),
        ("float[3,5] x", "y = Unique<axis = 0>(x)"),
        ("float[] x, int64[2] s", "y = Tile(x, s)"),
        ("float[] x", "y = Add(x, x)"),
        ("int64[N] s", "y = ConstantOfShape(s)"),
    ],
)
def test_what_is_declared_stays_where_nothing_can_be_inferred(signature, body):
    assert inferred(signature, body, "[M,2]") == "FLOAT[M,2]"


@pytest.mark.parametrize(
    ("length", "wanted"), [(4, "FLOAT[1]"), (7, "FLOAT[2]"), (5, "FLOAT[_d0]")]
)
def test_a_split_that_does_not_have_enough_for_all_parts(length, wanted):
    body = "y, a, b, c = Split<num_outputs = 4>(x)"
    assert inferred(f"float[{length}] x", body) == wanted


def test_axes_of_a_pad_given_at_run_time():
    body = f"{ints(p=[1, 1])} y = Pad(x, p, , a)"
    assert inferred("float[2,3] x, int64[1] a", body) == "FLOAT[_d0,_d1]"
    assert inferred("float[] x, int64[1] a", body) == "FLOAT[?]"


@pytest.mark.parametrize(
    ("signature", "arguments", "wanted"),
    [
        ("float[A,1,3] x", "", "FLOAT[?]"),
        ("float[2,1,3] x", "", "FLOAT[2,3]"),
        ("float[1,1,3] x, int64[K] a", ", a", "FLOAT[?]"),
        ("float[1,1,3] x, int64[0] a", ", a", "FLOAT[?]"),
    ],
)
def test_a_squeeze_of_what_the_run_tells(signature, arguments, wanted):
    assert inferred(signature, f"y = Squeeze(x{arguments})") == wanted


def test_unique_rows_keep_their_rank():
    assert inferred("float[3,2] x", "y = Unique<axis = 0>(x)") == "FLOAT[_d2,_d3]"
    assert inferred("float[3,2] x", "y, a, b, c = Unique(x)") == "FLOAT[_d0]"


def test_what_is_broadcast_or_compressed_has_an_unknown_rank_then_so_has_the_result():
    assert inferred("float[] x", f"{ints(s=[1])} y = Expand(x, s)") == "FLOAT[?]"
    assert inferred("float[] x, bool[2] c", "y = Compress<axis = 1>(x, c)") == "FLOAT[?]"
    assert inferred("float[] x, bool[2] c", "y = Compress(x, c)") == "FLOAT[_d0]"


def test_the_default_of_an_input_tells_nothing():
    assert inferred("float[2,3] x, int64[1] a = {0}", "y = Unsqueeze(x, a)") == "FLOAT[?]"


@pytest.mark.parametrize(
    ("signature", "body", "wanted"),
    [
        ("int64[2] s", "y = ConstantOfShape(s)", "FLOAT[_d0,_d1]"),
        ("int64[0] s", "y = ConstantOfShape(s)", "FLOAT[]"),
        ("int64[N] s", "y = ConstantOfShape(s)", "FLOAT[?]"),
        ("float[3] x, int64[2] s", "y = Expand(x, s)", "FLOAT[_d0,_d1]"),
        ("float[1,2,3] x, int64[1] s", "y = Expand(x, s)", "FLOAT[_d0,_d1,_d2]"),
        ("float[2,3] x, int64[2] s", "y = Tile(x, s)", "FLOAT[_d0,_d1]"),
    ],
)
def test_a_shape_given_at_run_time_tells_the_rank(signature, body, wanted):
    assert inferred(signature, body) == wanted


@pytest.mark.parametrize(
    ("attributes", "arguments", "wanted"),
    [
        ("keepdims = 0", "r", "FLOAT[]"),
        ("keepdims = 1", "r", "FLOAT[?]"),
        ("keepdims = 0, noop_with_empty_axes = 1", "r", "FLOAT[?]"),
        ("keepdims = 0", "r, a", "FLOAT[?]"),
    ],
)
def test_a_sum_of_all_has_no_axes_whatever_it_sums(attributes, arguments, wanted):
    body = f"r = Reshape(x, s) y = ReduceSum<{attributes}>({arguments})"
    assert inferred("float[6] x, int64[N] s, int64[M] a", body) == wanted


def test_two_symbols_that_meet_in_an_expand():
    body = f"{ints(s=[0], e=[1], a=[0])} r = Slice(x, s, e, a) d = Shape(x) y = Expand(r, d)"
    assert inferred("float[B,3] x", body) == "FLOAT[max(B,_d0),3]"
    assert inferred("float[1,3] x, float[B,3] z", "d = Shape(z) y = Expand(x, d)") == "FLOAT[B,3]"


@pytest.mark.parametrize(
    ("length", "scale", "wanted"),
    [
        (35, 1.4, "_d0"),
        (7, 1.5, "10"),
        (10, 2.0, "20"),
        (5, 0.5, "2"),
        ("N", 1.0, "N"),
        ("N", 1.5, "_d0"),
    ],
)
def test_sizes_that_scales_make(length, scale, wanted):
    """35 times the float nearest to 1.4 is less than 49, but ONNX Runtime rounds it to that."""
    body = f"s = Constant<value_floats = [1.0, {scale}]>() y = Resize(x, , s)"
    assert inferred(f"float[1,{length}] x", body) == f"FLOAT[1,{wanted}]"


def test_sizes_that_keep_an_aspect_ratio():
    policy = 'keep_aspect_ratio_policy = "not_larger"'
    body = f"{ints(s=[4, 7])} y = Resize<{policy}, axes = [1, 2]>(x, , , s)"
    assert inferred("float[1,5,6] x", body) == "FLOAT[1,_d0,_d1]"
    assert inferred("float[1,A,B] x", body) == "FLOAT[1,_d0,_d1]"
