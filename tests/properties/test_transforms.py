"""Fourier transforms: of any axis, of more or fewer elements than there are, and of frames."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, ints, judge, numbers, shape

# Attributes, and the size of the last axis.
TRANSFORMS = [
    ("inverse = 0", 1),
    ("inverse = 0", 2),
    ("inverse = 1", 1),
    ("inverse = 1", 2),
    ("onesided = 1", 1),
    ("inverse = 1, onesided = 1", 2),
]


@examples(12)
def test_dft(draw):
    attributes, pair = draw(st.sampled_from(TRANSFORMS))
    x = numbers(draw, (*shape(draw, 1, 3, smallest=2, most=24), pair))
    given, places = {"x": x}, ["x", "", ""]
    along = -2
    if draw(st.booleans()):
        along = draw(st.integers(-x.ndim, -2)) + draw(st.sampled_from((0, x.ndim)))
        given["a"], places[2] = ints(along), "a"
    whole = attributes.startswith("inverse = 1, ")
    if draw(st.booleans()) or whole:
        # Of a spectrum shorter than the result wants ONNX Runtime 1.32 reads too much.
        least, most = (2 * x.shape[along] - 2, 2 * x.shape[along] - 1) if whole else (1, 4)
        given["l"], places[1] = ints(draw(st.integers(least, most))), "l"
    while not places[-1]:
        places.pop()
    judge(draw, f"DFT<{attributes}>({', '.join(places)})", **given)


@examples(10)
def test_stft(draw):
    onesided, pair = draw(st.sampled_from(((1, 1), (0, 1), (0, 2))))
    length = draw(st.integers(1, 4))
    x = numbers(draw, (draw(st.integers(1, 2)), length + draw(st.integers(0, 4)), pair))
    given = {"x": x, "s": ints(draw(st.integers(1, 3)))}
    if draw(st.booleans()):
        given["w"] = numbers(draw, (length,), 1)
    if "w" not in given or draw(st.booleans()):
        given["n"] = np.array(length, np.int64)
    read = ", ".join(name if name in given else "" for name in "xswn").removesuffix(", ")
    judge(draw, f"STFT<onesided = {onesided}>({read})", declared=WAYS, **given)
