"""Models as modules of PyTorch's, judged by its own checks of gradients, and by training."""

import copy
import doctest
import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.judge import parse
from tests.trainer import models

import whileback

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

from whileback.torch import Module  # noqa: E402

LOOP = """(double[N,2] x, int64 n) => (double[N,2] y, double[] s)
    <double[2,2] w = {0.1, 0.2, -0.3, 0.4}, double[2] b = {0.1, 0.2}> {
    y = Loop(n, "", x) <body = trip (int64 i, bool c, double[N,2] v) => (bool d, double[N,2] z) {
        d = Identity(c)
        p = MatMul(v, w)
        q = Add(p, b)
        z = Tanh(q)
    }>
    e = Mul(y, y)
    s = ReduceSum<keepdims=0>(e)
}"""
SUM = "(float[N] x, float a) => (float[N] y) { y = Mul(x, a) }"


def loop(**options: Any) -> Module:
    return Module(parse(LOOP), **options)


def point(*shape: int) -> Any:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("engine", ["onnxruntime", "xla"])
@pytest.mark.parametrize("trips", [0, 3])
def test_gradients_of_any_order(engine: str, trips: int) -> None:
    module = loop(engine=engine)

    def call(x: Any, w: Any, b: Any) -> Any:
        return torch.func.functional_call(module, {"w": w, "b": b}, (x, trips))

    parameters = [each.detach().clone().requires_grad_() for each in (module.w, module.b)]
    arguments = (point(3, 2), *parameters)
    assert torch.autograd.gradcheck(call, arguments)
    assert torch.autograd.gradgradcheck(call, arguments)


def test_inputs_and_outputs() -> None:
    module, x = loop(), point(3, 2)
    y, s = module(x, 3)
    assert module.inputs == ["x", "n"] and module.outputs == ["y", "s"]
    assert [torch.equal(each, y) for each in module(n=torch.tensor(3), x=x)] == [True, False]
    assert torch.equal(module(x, n=3)[1], s)
    assert repr(module) == "Module('model': x, n -> y, s)"
    single = Module(parse(SUM))
    assert single(np.array([1, 2], np.float32), 3.0).tolist() == [3, 6]


def test_what_requires_no_gradient_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import whileback.torch as face

    differentiated: list[Any] = []
    Taped = face.Taped

    def noting(model: Any, of: Any, wrt: Any, *args: Any, **named: Any) -> Any:
        differentiated.append(wrt)
        return Taped(model, of, wrt, *args, **named)

    monkeypatch.setattr(face, "Taped", noting)
    module = loop()
    module.w.requires_grad_(False)
    module(point(3, 2).detach(), 3)[1].backward()
    assert differentiated == [("b",)]
    assert module.w.grad is None and module.b.grad is not None
    with torch.no_grad():
        assert not module(point(3, 2), 3)[0].requires_grad
    module.b.requires_grad_(False)
    assert not module(point(3, 2).detach(), 3)[0].requires_grad
    assert differentiated == [("b",)]


def test_outputs_without_gradients() -> None:
    module = Module(
        parse(
            "(float[3] x) => (float[3] y, int64 k, float[3] z) {"
            " y = Mul(x, x) k = ArgMax<keepdims=0>(x) z = Sign(x) }"
        )
    )
    x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    y, k, z = module(x)
    assert (y.requires_grad, k.requires_grad, z.requires_grad) == (True, False, False)
    (y[k] + z.sum()).backward()
    assert x.grad.tolist() == [0, 6, 0]


def test_outputs_that_are_not_used() -> None:
    """Nothing is computed for them, so that an infinite slope there is no NaN here."""
    module = Module(parse("(float[2] x) => (float[2] y, float[2] z) { y = Mul(x, x) z = Sqrt(x) }"))
    x = torch.tensor([0.0, 2.0], requires_grad=True)
    for used in ("y", "y", "both", "z", "y"):
        x.grad = None
        y, z = module(x)
        sum({"y": [y], "z": [z], "both": [y, z]}[used]).sum().backward()
        slopes = {"y": 2 * x, "z": 0.5 / x.sqrt(), "both": 2 * x + 0.5 / x.sqrt()}
        assert torch.allclose(x.grad, slopes[used].detach())


def test_memory_is_shared() -> None:
    module = loop()
    with torch.no_grad():
        before = module(point(1, 2), 1)[0]
        module.w.mul_(0)
        after = module(point(1, 2), 1)[0]
    assert not torch.equal(before, after)
    assert torch.allclose(after, torch.tanh(module.b))


def test_what_the_way_back_reads_must_not_change() -> None:
    module = loop()
    loss = module(point(3, 2), 3)[1]
    with torch.no_grad():
        module.w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("engine", ["onnxruntime", "xla"])
def test_training_makes_the_losses_of_a_step(engine: str) -> None:
    """PyTorch's AdamW on the module, and whileback's own step; statistics of batches included."""
    module = Module(models.model(), engine)
    assert {*module.state_dict()} == {"s", "c", "w", "b", "m", "v"}
    assert {name for name, _ in module.named_buffers()} == {"m", "v"}
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    trainer = models.trainer(optimizer="adamw")
    assert module._function(True).of == ("p",)
    for seed in range(20):
        batch = models.data(rows=16, seed=seed)
        want = trainer.step(batch, 1e-2)["loss"]
        p = module(torch.from_numpy(batch["x"]))
        loss = torch.nn.functional.nll_loss(p.log(), torch.from_numpy(batch["label"]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(want, abs=1e-5)
    for name, array in trainer.parameters().items():
        np.testing.assert_allclose(getattr(module, name).detach(), array, 0, 1e-5)
    batch = models.data(rows=7, seed=99)
    want_p = trainer.evaluate(batch).outputs["p"]
    module.eval()
    np.testing.assert_allclose(module(batch["x"]).detach(), want_p, 0, 1e-5)
    exported = whileback.compile(module.export())
    np.testing.assert_allclose(exported(x=batch["x"])["p"], want_p, 0, 1e-5)


def test_dropout_follows_the_seed_of_pytorch() -> None:
    model = parse(
        "(float[N] x) => (float[N] y) <bool t = {1}, float r = {0.5}> "
        "{ y, mask = Dropout(x, r, t) }"
    )
    module, x = Module(model), torch.ones(100, requires_grad=True)
    torch.manual_seed(3)
    first, second = module(x), module(x)
    torch.manual_seed(3)
    assert torch.equal(module(x), first) and not torch.equal(first, second)
    first.sum().backward()
    assert torch.equal(x.grad, first.detach())
    assert torch.equal(module.eval()(x), x)


def test_state_copies_and_names() -> None:
    model = parse("(float[N,1] x) => (float[N,1] y) <float[1,1] w = {2.0}> { y = MatMul(x, w) }")
    value = model.graph.initializers["w"]
    value.name = "0.fc.weight"
    module = Module(model)
    assert module.names == {"0.fc.weight": "_0_fc_weight"}
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin._0_fc_weight.fill_(5)
    file = io.BytesIO()
    torch.save(twin.state_dict(), file)
    file.seek(0)
    assert module(torch.ones(1, 1)).item() == 2
    module.load_state_dict(torch.load(file))
    assert module(torch.ones(1, 1)).item() == 5
    assert module.export().graph.initializers["0.fc.weight"].const_value.numpy() == 5
    assert model.graph.initializers["0.fc.weight"].const_value.numpy() == 2


def test_as_a_part_of_a_network() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 2), Module(parse(LOOP), trainable="w"))
    assert [name for name, _ in network.named_parameters()] == ["0.weight", "0.bias", "1.w"]
    with pytest.raises(whileback.UnsupportedError):
        network.half()


def test_a_tape_that_is_no_tensor() -> None:
    module = Module(
        parse("""(float[4] x, int64 k) => (float y) {
            e = Exp(x)
            s = SplitToSequence<axis=0, keepdims=0>(e)
            q = SequenceErase(s, k)
            c = ConcatFromSequence<axis=0, new_axis=1>(q)
            y = ReduceSum<keepdims=0>(c)
        }""")
    )
    x = torch.randn(4, requires_grad=True)
    module(x, 2).backward()
    assert torch.allclose(x.grad, x.exp().detach() * torch.tensor([1, 1, 0, 1]))


def test_bfloat16() -> None:
    module = Module(parse("(bfloat16[N] x) => (bfloat16[N] y) { y = Mul(x, x) }"), "xla")
    x = torch.tensor([1.5, -2.0], dtype=torch.bfloat16, requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [3, -4]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda module, x: module.float(),
            whileback.UnsupportedError,
            "Module of 'model' cannot be moved from torch.float64 on cpu to torch.float32 on cpu: "
            "it computes in the types of its model, on the CPU. Convert the model itself, and move "
            "what goes in and out with tensor.to().",
        ),
        (
            lambda module, x: module(x.float(), 3),
            whileback.ArgumentError,
            "Input 'x' is DOUBLE[N,2], but got an array of float32 with shape (3, 2). Convert it "
            "with `astype('float64')`.",
        ),
        (
            lambda module, x: module(x, 3, 4),
            whileback.ArgumentError,
            "Model 'model' has 2 inputs, but got 3: 'x', 'n'. Pass no more.",
        ),
        (
            lambda module, x: module(x, 3, x=x),
            whileback.ArgumentError,
            "Input 'x' is given both in the mapping and by keyword.",
        ),
        (
            lambda module, x: module(x.to("meta"), 3),
            whileback.ArgumentError,
            "Input 'x' is a torch.strided tensor on meta; the model runs on the CPU, on dense "
            "tensors. Convert it with .to('cpu') and .to_dense().",
        ),
        (
            lambda module, x: torch.func.grad(lambda x: module(x, 3)[1])(x),
            whileback.UnsupportedError,
            "Input 'x' is a tensor without numbers, as torch.func.grad and torch.func.vmap pass "
            "it. Call the module outside of them: torch.autograd differentiates it.",
        ),
        (
            lambda module, x: loop(trainable="v*"),
            whileback.ArgumentError,
            "trainable= has 'v*', which fits none of the names of tensors that can be trained; "
            "there are 2: 'w', 'b'",
        ),
        (
            lambda module, x: loop(engine="gpu"),
            whileback.ArgumentError,
            "There is no engine 'gpu'; there are 4: 'auto', 'onnxruntime', 'reference', 'xla'",
        ),
        (
            lambda module, x: Module(
                parse("(seq(float[N]) x) => (float[N] y) { y = ConcatFromSequence<axis=0>(x) }")
            ),
            whileback.UnsupportedError,
            "'x' of model 'model' is Sequence(Tensor(FLOAT)); a module of PyTorch's takes and "
            "gives tensors of numbers. Run the model with whileback.compile().",
        ),
    ],
)
def test_refusals(call: Callable[..., Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call(loop(), point(3, 2))
    assert str(caught.value) == text


def test_examples() -> None:
    result = doctest.testmod(sys.modules["whileback.torch"])
    assert result.attempted and not result.failed
