import numpy as np
import pytest
from tests.checking.test_expand import agree, normal


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("bins", [(1, 1), (2, 3), (4, 2)])
def test_max_roi_pool(bins, scale, seed):
    text = f"""(float[N,C,H,W] x, float[R,5] rois) => (float[R,C,P,Q] y) {{
      y = MaxRoiPool<pooled_shape = {list(bins)}, spatial_scale = {scale}>(x, rois)
    }}"""
    rng = np.random.default_rng(seed)
    corners = rng.choice(np.arange(-6, 12, 0.25), (6, 4))
    rois = np.concatenate([rng.integers(0, 2, (6, 1)), corners], axis=1).astype(np.float32)
    agree(text, {"x": normal(2, 3, 6, 5), "rois": rois})
