import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import judge, values
from tests.judge import assert_gradient, parse

from whileback.errors import UnsupportedError
from whileback.gradient import vjp

# Attributes, image, block, number of blocks.
BLOCKS = [
    ("", (4, 5), (1, 5), 4),
    ("", (3, 3), (2, 2), 4),
    ("strides = [2, 1], pads = [1, 0, 1, 1]", (5, 4), (3, 2), 12),
    ("strides = [2, 3]", (6, 7), (2, 2), 6),
    ("dilations = [2, 2]", (6, 5), (2, 2), 12),
    ("dilations = [2, 1], strides = [1, 2], pads = [0, 2, 1, 1]", (4, 3), (2, 2), 9),
    ("strides = [2, 1, 1]", (5, 3, 3), (1, 2, 2), 12),
    ("strides = [2]", (8,), (3,), 3),
]


def columns(block, count, batch=2, dtype="float32"):
    return values(batch, 2 * int(np.prod(block)), count, dtype=dtype)


@pytest.mark.parametrize("kind", ["known", "symbols"])
@pytest.mark.parametrize(("attributes", "image", "block", "count"), BLOCKS)
def test_blocks(attributes, image, block, count, kind):
    sizes = {"image": np.array(image), "block": np.array(block)}
    if attributes or kind == "known":
        judge(f"Col2Im<{attributes}>", kind, x=columns(block, count), **sizes)


@pytest.mark.parametrize(("attributes", "image", "block", "count"), BLOCKS)
def test_known_sizes(attributes, image, block, count):
    call = f"Col2Im<{attributes}>(x, i, b)".replace("<>", "")
    model = f"""(float[N,C,L] x) => (float y)
      <int64[{len(image)}] i = {{{",".join(map(str, image))}}},
       int64[{len(block)}] b = {{{",".join(map(str, block))}}}> {{
      y = {call}
    }}"""
    model = parse(model)
    model.graph.outputs[0].shape = None
    assert_gradient(model, ["y"], ["x"], {"x": columns(block, count)}, second_order=True)


def test_half_precision():
    sizes = {"image": np.array([3, 4]), "block": np.array([2, 2])}
    judge("Col2Im", x=columns((2, 2), 6, dtype="float16"), **sizes)


def test_an_empty_batch():
    model = """(float[N,C,L] x, int64[2] i, int64[2] b) => (float[N,D,H,W] y) {
      y = Col2Im(x, i, b)
    }"""
    sizes = {"i": np.array([3, 3]), "b": np.array([2, 2])}
    assert gradients(model, {"x": columns((2, 2), 4, batch=0), **sizes})["x"].shape == (0, 8, 4)


def test_an_unknown_number_of_axes():
    model = parse("(float[N,C,L] x, int64[R] i, int64[R] b) => (float y) { y = Col2Im(x, i, b) }")
    model.graph.outputs[0].shape = None
    with pytest.raises(UnsupportedError) as error:
        vjp(model, of="y", wrt="x")
    assert str(error.value) == (
        "Node 'Col2Im' (Col2Im) has no gradient: nothing shows how many axes its image has. "
        "Declare the shape of 'i', or give the node the attribute 'strides'."
    )
