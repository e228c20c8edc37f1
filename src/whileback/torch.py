"""ONNX models as modules of PyTorch's: `pip install 'whileback[onnxruntime,torch]'`.

Arrays are shared with PyTorch, not copied. Computing is done on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.api import AnyModel, Path, opened
from whileback.engines import Compiled, compile
from whileback.engines.arguments import Port, bind
from whileback.engines.taped import Taped, seeds
from whileback.errors import ArgumentError, UnsupportedError
from whileback.gradient.activity import connected
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.transform import Quantized, vjp
from whileback.graph.names import identifiers
from whileback.graph.shapes import describe
from whileback.training.embedded import Embedded, embedded
from whileback.training.exporting import export
from whileback.training.randomness import Dropping

try:
    import torch
except ImportError as error:
    raise ImportError(
        "whileback.torch needs PyTorch, which is not installed. Install it with: "
        "pip install 'whileback[torch]'"
    ) from error

__all__ = ["Module"]

Names = tuple[str, ...]
Tensors = Mapping[str, torch.Tensor]

_BFLOAT16 = np.dtype(ir.DataType.BFLOAT16.numpy())


class Module(torch.nn.Module):
    """A model as a module of PyTorch's, loops and all: its float tensors are parameters.

    Call it with tensors, by the model's names or in the order of its inputs; it gives a tensor, or
    a tuple of the model's outputs in their order. Gradients are whileback's, of inputs and
    parameters that require some, also of gradients (`create_graph=True`). The others cost nothing.

    In training (`module.train()`, as PyTorch begins), `BatchNormalization` normalizes by the batch
    and updates its running statistics, which are buffers, and `Dropout` drops as `dropout=` says;
    what is drawn follows `torch.manual_seed`. After `module.eval()` neither happens.

    Types are those of the model, and all is on the CPU: `to`, `half`, `cuda` and the like are
    refused where they would change that. `state_dict` holds everything; copies of the module share
    its sessions.

    Attributes:
        inputs: names of the model's inputs, in their order.
        outputs: names of its outputs, in their order.
        names: by the name of a tensor in the model, what the parameter or buffer is called here:
            other characters than letters and digits become `_`.

    >>> import onnx_ir as ir
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {2.0}> { y = MatMul(x, w) }''')
    >>> line = Module(model)
    >>> line(torch.tensor([[3.0], [4.0]])).sum().backward()
    >>> line.w.grad.tolist()
    [[7.0]]
    """

    def __init__(
        self,
        model: AnyModel,
        engine: str = "onnxruntime",
        *,
        trainable: str | Sequence[str] | None = None,
        dropout: Dropping = None,
        memory: Memory = None,
        quantized: Quantized = None,
        base_dir: Path | None = None,
        **options: Any,
    ) -> None:
        """Make a module of a model, which stays as it is.

        Args:
            model: a path, a ModelProto (`base_dir` is the folder of its external data), or an
                ir.Model.
            engine: which runs it, as for `whileback.compile`.
            trainable: patterns of the names of tensors that become parameters, as for
                `whileback.training.step`; the others stay constants of the model.
            dropout: in training, which `Dropout` nodes drop, as for `whileback.training.step`.
            memory, quantized: as for `whileback.gradient`.
            options: of the engine, as for `whileback.compile`.

        Raises:
            ArgumentError: the engine, an option or a pattern is unknown.
            EngineError: the runtime is missing, or refuses the model.
            UnsupportedError: an input or output is no tensor of numbers.
            FormatError, GraphError: the model cannot be read or is not valid.
        """
        super().__init__()
        self._source = opened(model, base_dir)
        _require_tensors(self._source.graph)
        self._embedded = cache(partial(self._embed, trainable, dropout))
        make = partial(compile, engine=engine, **options)
        self._function = cache(partial(self._make_function, make, memory, quantized))
        known = self._embedded(False)
        self._function(False).check()
        self.inputs, self.outputs = known.inputs, known.outputs
        self.names = identifiers([*known.parameters, *known.statistics], dir(self))
        for name, array in known.parameters.items():
            self.register_parameter(self.names[name], torch.nn.Parameter(_tensor(array.copy())))
        for name, array in known.statistics.items():
            self.register_buffer(self.names[name], _tensor(array.copy()))

    def _embed(
        self, trainable: str | Sequence[str] | None, dropout: Dropping, training: bool
    ) -> Embedded:
        return embedded(self._source, trainable, training=training, dropout=dropout)

    def _make_function(
        self,
        compile: Callable[[ir.Model], Compiled],
        memory: Memory,
        quantized: Quantized,
        training: bool,
    ) -> _Function:
        known = self._embedded(training)
        return _Function(known.model, known.outputs, compile, memory, quantized)

    def forward(self, *args: Any, **named: Any) -> Any:
        """Run the model on tensors, arrays or numbers, in the order of its inputs or by name.

        Raises:
            ArgumentError: an input is missing, unknown or given twice, of a wrong type or shape, or
                not on the CPU.
            UnsupportedError: a tensor has no numbers, as inside of `torch.func.vmap`.
            EngineError: the runtime failed.
        """
        known, function = self._embedded(self.training), self._function(self.training)
        given = self._given(known, function, args, named)
        buffers = {name: getattr(self, self.names[name]) for name in known.statistics}
        # In training they change before the way back reads what they were.
        given |= {name: buffer.clone() for name, buffer in buffers.items()}
        given |= {name: getattr(self, self.names[name]) for name in known.parameters}
        results = function({name: each for name, each in given.items() if name in function.inputs})
        with torch.no_grad():
            for name, output in known.following.items():
                buffers[name].copy_(results[output])
        outputs = tuple(results[name] for name in known.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _given(
        self, known: Embedded, function: _Function, args: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, torch.Tensor]:
        """Return the model's inputs as tensors by name, and what decides what is drawn."""
        title = str(self._source.graph.name)
        if len(args) > len(self.inputs):
            raise ArgumentError(
                f"Model {title!r} has {len(self.inputs)} inputs, but got {len(args)}: "
                f"{', '.join(map(repr, self.inputs)) or 'there are none'}. Pass no more."
            )
        first = dict(zip(self.inputs, args, strict=False))
        ports = {name: function.inputs[name] for name in self.inputs}
        by_place = {name: _as_array(name, each) for name, each in first.items()}
        by_name = {name: _as_array(name, each) for name, each in named.items()}
        bound = bind(title, ports, function.defaults, by_place, by_name)
        given = {**first, **named}
        tensors = {
            name: given[name] if isinstance(given[name], torch.Tensor) else _tensor(array)
            for name, array in bound.items()
        }
        if known.seed is not None:
            tensors[known.seed] = torch.randint(2**62, ())
        return tensors

    def extra_repr(self) -> str:
        """Return the name of the model, its inputs and its outputs, for `repr`."""
        ins, outs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"'{self._source.graph.name}': {ins} -> {outs}"

    def export(self) -> ir.Model:
        """Return the original model with the parameters and running statistics as they are now.

        `whileback.save` writes it. Raises what `whileback.training.export` does.
        """
        tensors = {name: getattr(self, here) for name, here in self.names.items()}
        return export(self._source, {name: _array(each).copy() for name, each in tensors.items()})

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Refuse what would change types or devices; PyTorch calls this for `to` and the like."""
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            assert tensor is not None
            with torch.no_grad():
                new = fn(tensor)
            if (new.dtype, new.device) != (tensor.dtype, tensor.device):
                raise UnsupportedError(
                    f"Module of '{self._source.graph.name}' cannot be moved from {tensor.dtype} on "
                    f"{tensor.device} to {new.dtype} on {new.device}: it computes in the types of "
                    "its model, on the CPU. Convert the model itself, and move what goes in and "
                    "out with tensor.to()."
                )
        return super()._apply(fn, recurse)


class _Function:
    """A model as a function of tensors by name, which PyTorch differentiates.

    A gradient is such a function, too, so that it has gradients as well. The outputs `of` have
    gradients, the others none.
    """

    def __init__(
        self,
        model: ir.Model,
        of: Sequence[str],
        compile: Callable[[ir.Model], Compiled],
        memory: Memory,
        quantized: Quantized,
    ) -> None:
        self.model, self._compile = model, compile
        self._options: dict[str, Any] = {"memory": memory, "quantized": quantized}
        self.inputs = {str(value.name): Port.of(value) for value in model.graph.inputs}
        self.outputs = [str(value.name) for value in model.graph.outputs]
        self.defaults = frozenset(model.graph.initializers)
        self._plain = cache(lambda: compile(model))
        self.of = tuple(of)
        # Which of some outputs depend on any of some inputs, and which of these they depend on.
        self.connected = cache(partial(connected, model.graph))
        # By inputs that require gradients, for which of these two the last one came back.
        self.expected: dict[Names, tuple[Names, Names]] = {}
        self.taped, self.gradient = cache(self._make_taped), cache(self._make_gradient)

    def __deepcopy__(self, memo: Any) -> _Function:
        return self

    def check(self) -> None:
        """Refuse what the engine refuses."""
        self._plain()

    def __call__(self, tensors: Tensors) -> dict[str, torch.Tensor]:
        """Return the outputs by name."""
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors.values()):
            results = _Call.apply(self, tuple(tensors), *tensors.values())
            return dict(zip(self.outputs, results, strict=True))
        return self.run({name: _array(each) for name, each in tensors.items()})

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        """Return the outputs by name, without gradients."""
        return {name: _tensor(each) for name, each in self._plain()(arrays).items()}

    def gradients(self, of: Names, wrt: Names, tensors: Tensors) -> dict[str, torch.Tensor]:
        """Return the gradients by input; `tensors` are the inputs and by output the cotangents.

        The model runs once more, since these have gradients, too.
        """
        slopes, names = self.gradient(of, wrt)
        given = {**tensors, **{name: tensors[y] for y, name in zip(of, names, strict=True)}}
        read = {name: each for name, each in given.items() if name in slopes.inputs}
        return dict(zip(wrt, slopes(read).values(), strict=True))

    def _make_taped(self, of: Names, wrt: Names) -> Taped:
        return Taped(self.model, of, wrt, self._compile, **self._options)

    def _make_gradient(self, of: Names, wrt: Names) -> tuple[_Function, list[str]]:
        """Return the gradients as a function, and the names of its cotangents."""
        model = vjp(self.model, of=of, wrt=wrt, **self._options)
        del model.graph.outputs[: -len(wrt)]
        slopes = [str(value.name) for value in model.graph.outputs]
        return _Function(model, slopes, self._compile, **self._options), seeds(model, of)


class _Call(torch.autograd.Function):
    """A call of which the way back goes on from what the run has kept.

    That is for those outputs for which gradients came back the last time: others are often not
    used. If it turns out otherwise, the model runs once more.
    """

    @staticmethod
    def forward(
        ctx: Any, function: _Function, names: Names, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        arrays = {name: _array(each) for name, each in zip(names, tensors, strict=True)}
        needs = zip(names, ctx.needs_input_grad[2:], strict=True)
        needed = tuple(name for name, needs_gradient in needs if needs_gradient)
        every = function.connected(function.of, needed)
        ctx.function, ctx.names, ctx.needed = function, names, needed
        ctx.set_materialize_grads(False)
        if not every[1]:
            results = function.run(arrays)
        else:
            ctx.taped_for = function.expected.get(needed, every)
            taped = function.taped(*ctx.taped_for)
            out, tape = taped.forward(arrays)
            results = {name: _tensor(each) for name, each in out.items()}
            kept = {name: results[name] for name in taped.kept}
            # What PyTorch saves, it frees after the way back.
            kept |= {name: _tensor(each) for name, each in tape.items() if _can_share(each)}
            ctx.saved, ctx.tape = [*names, *kept], {n: a for n, a in tape.items() if n not in kept}
            ctx.save_for_backward(*tensors, *kept.values())
        ctx.mark_non_differentiable(*(t for name, t in results.items() if name not in every[0]))
        return tuple(results.values())

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        function: _Function = ctx.function
        saved = dict(zip(ctx.saved, ctx.saved_tensors, strict=True))
        pairs = zip(function.outputs, cotangents, strict=True)
        came = {name: each for name, each in pairs if each is not None}
        of, wrt = function.connected(tuple(came), ctx.needed)
        if torch.is_grad_enabled() or (of, wrt) != ctx.taped_for:
            tensors = {name: saved[name] for name in ctx.names}
            results = function.gradients(of, wrt, tensors | came) if wrt else {}
        else:
            arrays = {name: _array(each) for name, each in saved.items()}
            seeds = {name: _array(came[name]) for name in of}
            out = function.taped(of, wrt).backward(arrays, ctx.tape, seeds)
            results = {name: _tensor(each) for name, each in out.items()}
        function.expected[ctx.needed] = of, wrt
        return None, None, *(results.get(name) for name in ctx.names)


def _require_tensors(graph: ir.Graph) -> None:
    for value in (*graph.inputs, *graph.outputs):
        if not isinstance(value.type, ir.TensorType) or value.dtype == ir.DataType.STRING:
            raise UnsupportedError(
                f"'{value.name}' of model '{graph.name}' is {describe(value)}; a module of "
                "PyTorch's takes and gives tensors of numbers. Run the model with "
                "whileback.compile()."
            )


def _as_array(name: str, value: Any) -> Any:
    """Return an argument with the memory of a tensor; anything else stays as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "cpu" or value.layout != torch.strided:
        raise ArgumentError(
            f"Input {name!r} is a {value.layout} tensor on {value.device}; the model runs on the "
            "CPU, on dense tensors. Convert it with .to('cpu') and .to_dense()."
        )
    try:
        return _array(value)
    except RuntimeError as error:
        raise UnsupportedError(
            f"Input {name!r} is a tensor without numbers, as torch.func.grad and torch.func.vmap "
            "pass it. Call the module outside of them: torch.autograd differentiates it."
        ) from error


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Return an array that shares the memory of a tensor."""
    is_brain = tensor.dtype == torch.bfloat16
    array: np.ndarray = (tensor.view(torch.int16) if is_brain else tensor).numpy(force=True)
    return array.view(_BFLOAT16) if is_brain else array


def _tensor(array: np.ndarray) -> torch.Tensor:
    """Return a tensor that shares the memory of an array, if that may be written to."""
    array = np.asarray(array)
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _can_share(value: Any) -> bool:
    """Tell whether a value is an array that a tensor can share its memory with."""
    if not isinstance(value, np.ndarray) or not value.flags.writeable:
        return False
    return value.dtype.kind in "biuf" or value.dtype == _BFLOAT16
