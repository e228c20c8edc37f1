"""ONNX models as pure functions of JAX's: `pip install 'whileback[xla]'`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whileback.api import AnyModel, Path, opened
from whileback.engines import compile
from whileback.training.embedded import embedded
from whileback.training.randomness import Dropping

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError(
        "whileback.jax needs JAX, which is not installed. Install it with: "
        "pip install 'whileback[xla]'"
    ) from error

__all__ = ["function"]

Params = dict[str, jax.Array]


def function(
    model: AnyModel,
    *,
    trainable: str | Sequence[str] | None = None,
    training: bool = False,
    dropout: Dropping = None,
    base_dir: Path | None = None,
) -> tuple[Callable[..., dict[str, Any]], Params]:
    """Return a model as a pure function of JAX's, and its parameters, a pytree.

    `f(params, x=x)`, or `f(params, {"a/b:0": x})` for names that are no Python names, gives the
    model's outputs by name. `jax.jit`, `jax.grad` and the like, `jax.vmap` and shardings work on
    it, loops and all, as docs/xla.md tells of models that are compiled by `engine="xla"`.

    Running statistics of `BatchNormalization` are inputs, with the model's own as defaults; so is
    the `seed` INT64[], by default 0, where something is drawn at random.

    Args:
        model: a path, a ModelProto (`base_dir` is the folder of its external data), or an
            ir.Model; it stays as it is.
        trainable: patterns of the names of tensors that become parameters, as for
            `whileback.training.step`; the others stay constants of the model.
        training: whether `BatchNormalization` normalizes by the batch; what a running statistic `m`
            becomes is then the output `m_next`. Otherwise nothing is dropped.
        dropout: in training, which `Dropout` nodes drop, as for `whileback.training.step`.

    Returns: the function, and the parameters by the names that they have in the model.

    Raises:
        ArgumentError: a pattern is unknown.
        EngineError: XLA has no such operators; all of them are listed.
        FormatError, GraphError: the model cannot be read or is not valid.

    >>> import onnx_ir as ir
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {2.0}> { y = MatMul(x, w) }''')
    >>> f, params = function(model)
    >>> x = jnp.array([[3.0], [4.0]])
    >>> jax.jit(jax.grad(lambda params: f(params, x=x)["y"].sum()))(params)["w"].tolist()
    [[7.0]]
    """
    part = embedded(opened(model, base_dir), trainable, training=training, dropout=dropout)
    compiled = compile(part.model, "xla")

    def call(
        params: Mapping[str, Any], inputs: Mapping[str, Any] | None = None, /, **named: Any
    ) -> dict[str, Any]:
        """Return the outputs by name, for parameters and inputs by name."""
        return compiled({**part.statistics, **params, **(inputs or {})}, **named)

    return call, {name: jnp.asarray(array) for name, array in part.parameters.items()}
