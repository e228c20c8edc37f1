"""Operators that slide a window: convolutions and pools.

Where there are no images, ONNX Runtime refuses the second derivative of a convolution. For "SAME"
its version 1.32 pads pools as if windows were not dilated. With `ceil_mode` sizes are symbols: the
checker of ONNX 1.23 also counts a window that would begin in the padding, and refuses a size that
is declared right.
"""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, judge, numbers


class Window:
    """A window over 1 to 3 axes: its attributes, and inputs large enough for it."""

    def __init__(self, draw, *, dilated=True, most_axes=3):
        self.draw = draw
        self.count = draw(st.integers(1, most_axes))
        largest = 4 - self.count
        self.kernel = self._each(1, 1 + largest)
        self.strides = self._each(1, 3)
        self.dilations = self._each(1, 2 if dilated else 1)
        self.sizes = self._each(1, 2 + largest)
        self.attributes = {}
        for name, default in (("strides", 1), ("dilations", 1)):
            values = getattr(self, name)
            if set(values) != {default} or draw(st.booleans()):
                self.attributes[name] = values

    def _each(self, least, most):
        return [self.draw(st.integers(least, most)) for _ in range(self.count)]

    @property
    def dilated(self):
        """Whether a window leaves elements out."""
        return set(self.dilations) != {1}

    @property
    def reach(self):
        """How many elements lie between the first and the last one of a window, both included."""
        return [d * (k - 1) + 1 for d, k in zip(self.dilations, self.kernel, strict=True)]

    def pad(self, *, most=2, same=True):
        """Draw automatic padding, pads for each end, or none, and return whether there is any."""
        ways = ["pads", "none", "VALID", *(("SAME_UPPER", "SAME_LOWER") if same else ())]
        way = self.draw(st.sampled_from(ways))
        totals = [0] * self.count
        if way == "pads":
            reach = [min(most, k - 1) for k in self.kernel]
            begins, ends = ([self.draw(st.integers(0, each)) for each in reach] for _ in "be")
            self.attributes["pads"] = [*begins, *ends]
            totals = list(map(sum, zip(begins, ends, strict=True)))
        elif way != "none":
            self.attributes["auto_pad"] = f'"{way}"'
        if not way.startswith("SAME"):
            places = zip(self.sizes, self.reach, totals, strict=True)
            self.sizes = [max(size, reach - pad) for size, reach, pad in places]
        return way.startswith("SAME") or any(totals)

    def fill(self):
        """Make inputs so large that no window, however dilated, has nothing but padding."""
        if self.dilated:
            self.sizes = list(map(max, self.sizes, self.reach))

    def written(self, **more):
        """Return all attributes as text."""
        given = self.attributes | more
        return "<" + ", ".join(f"{name} = {value}" for name, value in given.items()) + ">"


def parameters(draw, window, channels, kernels, count):
    """Draw the weight of a convolution and perhaps a bias; and their names."""
    given = {"w": numbers(draw, (channels, kernels, *window.kernel), 1)}
    if draw(st.booleans()):
        given["b"] = numbers(draw, (count,), 2)
    return given, ", ".join(["x", *given])


@examples(10)
def test_conv(draw):
    window, group = Window(draw), draw(st.integers(1, 2))
    window.pad(most=2)
    inputs, outputs = (draw(st.integers(1, 2)) for _ in range(2))
    x = numbers(draw, (draw(st.integers(0, 2)), group * inputs, *window.sizes))
    given, read = parameters(draw, window, group * outputs, inputs, group * outputs)
    call = f"Conv{window.written(group=group, kernel_shape=window.kernel)}({read})"
    judge(draw, call, second_order=len(x) > 0, x=x, **given)


@examples(10)
def test_conv_transpose(draw):
    window, group = Window(draw), draw(st.integers(1, 2))
    window.sizes = [min(size, 3) for size in window.sizes]
    # ONNX Runtime 1.32 adds nothing to what is written, and the specification leaves that open.
    window.pad(most=1, same=all(map(int.__ge__, window.reach, window.strides)))
    inputs, outputs = (draw(st.integers(1, 2)) for _ in range(2))
    extra = [
        draw(st.integers(0, max(stride, dilation) - 1))
        for stride, dilation in zip(window.strides, window.dilations, strict=True)
    ]
    if any(extra) and "SAME" not in window.attributes.get("auto_pad", ""):
        window.attributes["output_padding"] = extra
    elif draw(st.booleans()):
        window.attributes.pop("pads", None)
        window.attributes["output_shape"] = [
            stride * (size - 1) + reach + draw(st.integers(-1, 1))
            for stride, size, reach in zip(window.strides, window.sizes, window.reach, strict=True)
        ]
    x = numbers(draw, (draw(st.integers(0, 2)), group * inputs, *window.sizes))
    given, read = parameters(draw, window, group * inputs, outputs, group * outputs)
    call = f"ConvTranspose{window.written(group=group, kernel_shape=window.kernel)}({read})"
    judge(draw, call, second_order=len(x) > 0, x=x, **given)


@examples(8)
def test_average_pool(draw):
    window = Window(draw)
    window.pad(same=not window.dilated)
    window.fill()
    ceil, include = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    x = numbers(draw, (draw(st.integers(0, 2)), draw(st.integers(1, 2)), *window.sizes))
    more = {"kernel_shape": window.kernel, "ceil_mode": ceil, "count_include_pad": include}
    judge(draw, f"AveragePool{window.written(**more)}(x)", declared=WAYS[ceil:], x=x)


@examples(8)
def test_max_pool(draw):
    window = Window(draw)
    window.pad(same=not window.dilated)
    window.fill()
    x = numbers(draw, (draw(st.integers(0, 2)), draw(st.integers(1, 2)), *window.sizes))
    ceil = draw(st.integers(0, 1))
    more = {"kernel_shape": window.kernel, "ceil_mode": ceil}
    outputs = ("y", "i")[: draw(st.integers(1, 2))]
    if len(outputs) > 1:
        more["storage_order"] = draw(st.integers(0, 1))
    judge(draw, f"MaxPool{window.written(**more)}(x)", outputs=outputs, declared=WAYS[ceil:], x=x)


@examples(6)
def test_lp_pool(draw):
    window = Window(draw)
    padded = window.pad(same=not window.dilated)
    x = numbers(draw, (draw(st.integers(0, 2)), draw(st.integers(1, 2)), *window.sizes))
    ceil = draw(st.integers(0, 1))
    p = draw(st.integers(1, 3))
    more = {"kernel_shape": window.kernel, "p": p, "ceil_mode": ceil}
    # The norm of one element is straight: what rounding leaves of its bend cannot be judged.
    bent = max(window.kernel) > 1 and not padded
    call = f"LpPool{window.written(**more)}(x)"
    judge(draw, call, declared=WAYS[ceil:], second_order=bent, x=x)


@examples(6)
def test_pools_over_everything(draw):
    operator = draw(st.sampled_from(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool<p = 3>")))
    sizes = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 3)))]
    x = numbers(draw, (draw(st.integers(0, 2)), draw(st.integers(1, 2)), *sizes))
    judge(draw, f"{operator}(x)", second_order=max(sizes) > 1, x=x)


@examples(6)
def test_max_unpool(draw):
    window = Window(draw, dilated=False)
    x = numbers(draw, (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *window.sizes))
    window.attributes.pop("dilations", None)
    ends = [
        s * (n - 1) + k for s, n, k in zip(window.strides, window.sizes, window.kernel, strict=True)
    ]
    whole = int(np.prod((*x.shape[:2], *ends)))
    places = np.random.default_rng(draw(st.integers(0, 9))).permutation(whole)[: x.size]
    call = f"MaxUnpool{window.written(kernel_shape=window.kernel)}(x, i)"
    judge(draw, call, x=x, i=places.reshape(x.shape))
