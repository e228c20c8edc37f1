import numpy as np
import pytest
from tests.corpus.arguments import beside

SCALES = np.float32([1, 1, 0.6, -2.5])


def draws(value, **way):
    rng = np.random.default_rng(0)
    return [beside(value, rng, **({"apart": False, "same_sizes": False} | way)) for _ in range(50)]


@pytest.mark.parametrize("value", [np.int64([1, 2]), [np.float32([1])], None])
def test_only_arrays_of_floats_are_changed(value):
    assert all(each is value for each in draws(value))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_steps_are_small_beside_an_argument_and_keep_its_type(dtype):
    value = np.array([[4, -4], [0, 4]], dtype)
    for each in draws(value):
        assert each.dtype == dtype
        assert (each != value).all()
        assert (np.abs(each - value) <= 0.5).all()


def test_what_is_none_becomes_a_number():
    value = np.float32([np.nan, np.inf, -np.inf])
    assert all(np.isfinite(each).all() for each in draws(value))


def test_none_is_close_to_another():
    for each in draws(np.float32([[1, 1, 1], [2, 2, 2]]), apart=True):
        gaps = np.diff(np.sort(each, axis=None))
        np.testing.assert_allclose(gaps, gaps.mean(), rtol=1e-4)
        assert each[0].max() < each[1].min()


def test_ones_stay_and_others_grow_to_say_the_same_sizes():
    for each in draws(SCALES, same_sizes=True):
        assert (each[:2] == 1).all()
        assert (np.abs(each[2:]) >= np.abs(SCALES[2:])).all()
        assert (np.sign(each) == np.sign(SCALES)).all()


def test_without_that_all_sizes_change():
    ones = np.ones(4, np.float32)
    assert all((each != 1).all() for each in draws(ones))
