import numpy as np
import pytest
from tests.judge import assert_gradient

CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij , jk", (2, 3), (3, 4)),
    ("ba,ac", (2, 3), (3, 4)),
    ("ij->", (2, 3)),
    ("ij->i", (2, 3)),
    ("ij->ji", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("i,j,k->ijk", (2,), (3,), (2,)),
    ("ij,jk->", (2, 3), (3, 4)),
    ("ij,ij,j->i", (2, 3), (2, 3), (3,)),
    ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (1, 2, 3), (5, 3, 4)),
    ("...ij,jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,jk", (5, 2, 3), (3, 4)),
    ("i...->...", (2, 3)),
    ("i...i->...", (2, 3, 2)),
    ("...ii,...k->...k", (5, 2, 2), (5, 3)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,j->i", (2, 1), (3,)),
    ("ij,jk->k", (2, 1), (3, 4)),
]


def judge(declarations, equation, arrays, before=""):
    names = [f"x{index}" for index in range(len(arrays))]
    model = f"""({declarations}) => (float[N] y) {{
      flat = Constant<value_ints = [-1]>()
      {before}
      product = Einsum<equation = "{equation}">({", ".join(f"v{name}" for name in names)})
      y = Reshape(product, flat)
    }}"""
    rng = np.random.default_rng(0)
    inputs = {n: rng.normal(size=s).astype(np.float32) for n, s in zip(names, arrays, strict=True)}
    return model, names, inputs


@pytest.mark.parametrize(("equation", "shapes"), [(case[0], case[1:]) for case in CASES])
def test_known_shapes(equation, shapes):
    declared = (f"float[{','.join(map(str, s))}] x{i}" for i, s in enumerate(shapes))
    copies = " ".join(f"vx{i} = Identity(x{i})" for i in range(len(shapes)))
    model, names, inputs = judge(", ".join(declared), equation, shapes, copies)
    assert_gradient(model, ["y"], names, inputs, second_order=True)


@pytest.mark.parametrize(
    ("equation", "shapes"), [(case[0], case[1:]) for case in CASES if "..." in case[0]]
)
def test_unknown_ranks(equation, shapes):
    declared = (f"float[N{i}] x{i}, int64[R{i}] s{i}" for i in range(len(shapes)))
    reshapes = " ".join(f"vx{i} = Reshape(x{i}, s{i})" for i in range(len(shapes)))
    model, names, inputs = judge(", ".join(declared), equation, shapes, reshapes)
    flat = {name: value.reshape(-1) for name, value in inputs.items()}
    sizes = {f"s{i}": np.array(shape) for i, shape in enumerate(shapes)}
    assert_gradient(model, ["y"], names, flat | sizes, second_order=True)


def test_one_value_twice():
    model = '(float[2,3] x) => (float[2,2] y) { y = Einsum<equation = "ij,kj->ik">(x, x) }'
    assert_gradient(model, ["y"], ["x"], second_order=True)
