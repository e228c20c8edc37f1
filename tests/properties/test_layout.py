"""Operators that move elements: other shapes, other places, copies, edges."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import axes, axis, examples, ints, judge, numbers, shape, whole


@examples(8)
def test_reshape(draw):
    x = numbers(draw, shape(draw))
    left, target = x.size, []
    while left > 1 and len(target) < 4:
        target.append(draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
        left //= target[-1]
    target.append(left)
    allowzero = 0
    if x.size == 0:
        target, allowzero = draw(st.permutations([0, *x.shape[: draw(st.integers(0, 3))]])), 1
    elif draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = -1
    judge(draw, f"Reshape<allowzero = {allowzero}>(x, s)", x=x, s=ints(target))


@examples(4)
def test_reshape_that_copies_dimensions(draw):
    x = numbers(draw, shape(draw, 1))
    count = draw(st.integers(1, x.ndim))
    target = [0] * count + ([-1] if 0 not in x.shape[:count] and draw(st.booleans()) else [])
    if target == [0] * count:
        target += x.shape[count:]
    judge(draw, "Reshape(x, s)", x=x, s=ints(target))


@examples(4)
def test_flatten(draw):
    x = numbers(draw, shape(draw))
    judge(draw, f"Flatten<axis = {draw(st.integers(-x.ndim, x.ndim))}>(x)", x=x)


@examples(6)
def test_transpose(draw):
    x = numbers(draw, shape(draw))
    order = list(draw(st.permutations(range(x.ndim))))
    judge(draw, f"Transpose<perm = {order}>(x)" if x.ndim else "Transpose(x)", x=x)


@examples(8)
def test_squeeze(draw):
    dims = shape(draw, 0, 4)
    ones = axes(draw, len(dims))
    dims = tuple(1 if k in ones or k - len(dims) in ones else d for k, d in enumerate(dims))
    given = {"a": ints(ones)} if ones and draw(st.booleans()) else {}
    judge(draw, f"Squeeze(x{', a' if given else ''})", x=numbers(draw, dims), **given)


@examples(8)
def test_unsqueeze(draw):
    x = numbers(draw, shape(draw, 0, 3))
    count = draw(st.integers(0, 2))
    chosen = draw(st.permutations(range(x.ndim + count)))[:count]
    chosen = [each - (x.ndim + count) * draw(st.integers(0, 1)) for each in chosen]
    judge(draw, "Unsqueeze(x, a)", x=x, a=ints(chosen))


@examples(10)
def test_concat(draw):
    dims = list(shape(draw, 1, 4, most=20))
    along, parts = axis(draw, len(dims)), {}
    for which, name in enumerate("abcd"[: draw(st.integers(1, 4))]):
        dims[along] = draw(st.integers(0, 3))
        parts[name] = numbers(draw, tuple(dims), which)
    judge(draw, f"Concat<axis = {along}>({', '.join(parts)})", **parts)


@examples(12)
def test_split(draw):
    x = numbers(draw, shape(draw, 1, 4))
    along = axis(draw, x.ndim)
    count = draw(st.integers(1, 3))
    outputs = "abc"[:count]
    of = draw(st.permutations(outputs))[: draw(st.integers(1, count))]
    if draw(st.booleans()):
        call, given = f"Split<axis = {along}, num_outputs = {count}>(x)", {}
    else:
        cuts = sorted(draw(st.integers(0, x.shape[along])) for _ in range(count - 1))
        sizes = np.diff([0, *cuts, x.shape[along]])
        call, given = f"Split<axis = {along}>(x, s)", {"s": sizes}
    judge(draw, call, outputs=outputs, of=of, x=x, **given)


@examples(4)
def test_split_by_an_attribute(draw):
    x = numbers(draw, shape(draw, 1, 4))
    along, opset = axis(draw, x.ndim), draw(st.sampled_from((7, 11, 12)))
    along = along if opset > 10 else along % x.ndim
    cut = draw(st.integers(0, x.shape[along]))
    call = f"Split<axis = {along}, split = {[cut, x.shape[along] - cut]}>(x)"
    judge(draw, call, outputs="ab", of="ab", opset=opset, x=x)


@examples(8)
def test_tile(draw):
    x = numbers(draw, shape(draw, 0, 4, most=16))
    judge(draw, "Tile(x, r)", x=x, r=whole(draw, (x.ndim,), 0, 2))


def pads(draw, dims, chosen, mode):
    """Draw pads at the begins, then at the ends, of chosen axes, and no more than a mode can do."""
    amounts = []
    for each in chosen:
        size = dims[each]
        most = {"constant": 2, "edge": 2 * min(size, 1)}.get(mode, size - (mode == "reflect"))
        most = max(0, min(2, most))
        low, high = draw(st.integers(-2, most)), draw(st.integers(-2, most))
        if low + high + size < 0 or (mode != "constant" and min(low, high) < 0):
            low, high = max(low, 0), max(high, 0)
        amounts.append((low, high))
    return ints([pair[side] for side in (0, 1) for pair in amounts])


@examples(24)
def test_pad(draw):
    mode = draw(st.sampled_from(("constant", "constant", "reflect", "edge", "wrap")))
    x = numbers(draw, shape(draw, 1, most=24))
    given = {"x": x, "p": None}
    chosen, arguments = list(range(x.ndim)), ["x", "p", "", ""]
    if mode == "constant" and draw(st.booleans()):
        given["v"], arguments[2] = numbers(draw, (), 1), "v"
    if draw(st.booleans()):
        chosen = axes(draw, x.ndim, least=1)
        given["a"], arguments[3] = ints(chosen), "a"
    given["p"] = pads(draw, x.shape, chosen, mode)
    while not arguments[-1]:
        arguments.pop()
    judge(draw, f'Pad<mode = "{mode}">({", ".join(arguments)})', **given)


@examples(6)
def test_pad_by_an_attribute(draw):
    mode = draw(st.sampled_from(("constant", "reflect", "edge")))
    x = numbers(draw, shape(draw, 1, most=24, smallest=1))
    amounts = pads(draw, x.shape, range(x.ndim), mode).tolist()
    value = ", value = 1.5" if mode == "constant" and draw(st.booleans()) else ""
    opset = draw(st.sampled_from((7, 10)))
    judge(draw, f'Pad<mode = "{mode}", pads = {amounts}{value}>(x)', opset=opset, x=x)


@examples(8)
def test_center_crop_pad(draw):
    x = numbers(draw, shape(draw, 1, most=24))
    chosen = axes(draw, x.ndim, least=1)
    given = f"<axes = {chosen}>" if draw(st.booleans()) else ""
    sizes = ints([draw(st.integers(0, 4)) for _ in (chosen if given else x.shape)])
    judge(draw, f"CenterCropPad{given}(x, s)", x=x, s=sizes)


@examples(6)
def test_blocks_and_channels(draw):
    block = draw(st.integers(1, 3))
    n, c, h, w = (draw(st.integers(0 if k == 0 else 1, 2)) for k in range(4))
    if draw(st.booleans()):
        x = numbers(draw, (n, c, h * block, w * block))
        judge(draw, f"SpaceToDepth<blocksize = {block}>(x)", opset=13, x=x)
    else:
        mode = draw(st.sampled_from(("DCR", "CRD")))
        x = numbers(draw, (n, c * block * block, h, w))
        judge(draw, f'DepthToSpace<blocksize = {block}, mode = "{mode}">(x)', x=x)


@examples(6)
def test_range(draw):
    start, delta = numbers(draw, ()), numbers(draw, (), 1)
    count = draw(st.integers(-1, 5))
    limit = (start + (count - 0.5) * delta).astype(np.float32)
    judge(draw, "Range(s, l, d)", s=start, l=limit, d=delta)
