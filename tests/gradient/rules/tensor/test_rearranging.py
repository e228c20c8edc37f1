import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import judge

IMAGE = np.linspace(-2, 3, 2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3)


@pytest.mark.parametrize("kind", ["float[2,8,2,3]", "float[A,8,C,D]", "float[A,B,C,D]", "float[]"])
def test_depth_to_space(kind):
    for mode in ("DCR", "CRD"):
        judge(f'y = DepthToSpace<blocksize = 2, mode = "{mode}">(h)', kind, x=IMAGE)
    judge("y = DepthToSpace<blocksize = 1>(h)", kind, x=IMAGE)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_an_empty_batch(mode):
    judge(f'y = DepthToSpace<blocksize = 2, mode = "{mode}">(h)', "float[A,B,C,D]", x=IMAGE[:0])


@pytest.mark.parametrize("kind", ["float[1,2,4,6]", "float[A,B,C,D]", "float[]"])
def test_space_to_depth(kind):
    x = IMAGE.reshape(2, 2, 4, 6)[:1]
    judge("y = SpaceToDepth<blocksize = 2>(h)", kind, x=x)
    for mode in ("DCR", "CRD"):
        judge(f'y = SpaceToDepth<blocksize = 2, mode = "{mode}">(h)', kind, x=x, opset=28)


@pytest.mark.parametrize("kind", ["float[4,3]", "float[A,B]", "float[]"])
def test_reverse_sequence(kind):
    x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(4, 3)
    judge("y = ReverseSequence(h, n)", kind, "int64[3] n", x=x, n=[1, 4, 2])
    body = "y = ReverseSequence<batch_axis = 0, time_axis = 1>(h, n)"
    judge(body, kind, "int64[4] n", x=x, n=[1, 3, 2, 3])
