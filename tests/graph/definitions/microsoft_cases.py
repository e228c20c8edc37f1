"""Calls of ONNX Runtime's operators that the processor has kernels for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> model '


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def whole(*rows: object) -> np.ndarray:
    return np.array(rows, np.int32)


def bytes_(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 100, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A call of an operator, with its inputs in order, None for one that is left out."""

    call: str
    inputs: list[np.ndarray | None]
    outputs: str = "y"
    kinks: bool = False

    @property
    def kinds(self) -> list[bool]:
        """Whether dimensions are symbols; one kernel insists on known sizes of its weights."""
        return [False] if "Embed" in self.call else [False, True]

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{i}": given for i, given in enumerate(self.inputs) if given is not None}

    @property
    def wrt(self) -> list[str]:
        return [name for name, value in self.feeds.items() if value.dtype == np.float32]

    @property
    def of(self) -> list[str]:
        return [name for name in self.outputs.split(", ") if name and name != "counts"]

    def text(self, symbols: bool = False) -> str:
        operator, _, attributes = self.call.partition("<")
        names = ["" if given is None else f"x{i}" for i, given in enumerate(self.inputs)]
        types = ", ".join(_typed(name, array, symbols) for name, array in self.feeds.items())
        results = ", ".join(f"float[] {name}" for name in self.of)
        results += ", int32[] counts" if "counts" in self.outputs else ""
        node = f"{self.outputs} = {operator}{'<' if attributes else ''}{attributes}"
        return f"{HEADER} ({types}) => ({results}) {{ {node}({', '.join(names)}) }}"


def _typed(name: str, array: np.ndarray, symbols: bool) -> str:
    dtype = {"float32": "float"}.get(array.dtype.name, array.dtype.name)
    dims = ",".join(f"{name}_{axis}" if symbols else str(n) for axis, n in enumerate(array.shape))
    return f"{dtype}[{dims}] {name}" if array.ndim else f"{dtype} {name}"


def ms(call: str, *inputs: np.ndarray | None, outputs: str = "y", kinks: bool = False) -> Case:
    return Case(f"com.microsoft.{call}", list(inputs), outputs, kinks)


X = floats(2, 3, 8)
ACTIVATIONS = {
    "Relu": ("", ""),
    "Tanh": ("", ""),
    "Sigmoid": ("", ""),
    "LeakyRelu": ("activation_alpha = 0.2", "[0.2]"),
    "HardSigmoid": ("activation_alpha = 0.2, activation_beta = 0.4", "[0.2, 0.4]"),
}
KINKED = ("Relu", "LeakyRelu", "HardSigmoid", "Clip", "ThresholdedRelu")


def gemm(activation: str, parameters: str) -> Case:
    attributes = f'activation = "{activation}", {parameters + ", " if parameters else ""}beta = 0.3'
    call = f"FusedGemm<{attributes}, alpha = 0.5, transB = 1>"
    return ms(call, floats(2, 3), floats(4, 3), floats(4), kinks=activation in KINKED)


def conv(activation: str, parameters: str, *inputs: np.ndarray | None) -> Case:
    given = f", activation_params = {parameters}" if parameters else ""
    call = f'FusedConv<activation = "{activation}"{given}, pads = [1, 0, 1, 2]>'
    kernels = floats(1, 2, 4, 4), floats(3, 2, 3, 3)
    return ms(call, *kernels, *inputs, kinks=activation in KINKED)


def n_bits(bits: int, zero_points: str) -> Case:
    rows, columns, blocks = 3, 40, 3
    B = bytes_(rows, blocks, 16 * bits // 8)
    zeros = {
        "none": [],
        "bytes": [bytes_(rows, -(-blocks * bits // 8))],
        "floats": [floats(rows, blocks, seed=1)],
    }[zero_points]
    call = f"MatMulNBits<K = {columns}, N = {rows}, bits = {bits}, block_size = 16>"
    return ms(call, floats(2, columns), B, floats(rows, blocks), *zeros)


PRODUCTS = {
    "turned": ms("FusedMatMul<alpha = 0.5, transA = 1>", floats(2, 5, 3), floats(2, 5, 4)),
    "batch turned": ms(
        "FusedMatMul<transBatchA = 1, transB = 1>", floats(4, 2, 3, 5), floats(2, 3, 6, 5)
    ),
    "all turned": ms(
        "FusedMatMul<transBatchA = 1, transA = 1, transBatchB = 1, transB = 1>",
        floats(5, 2, 3, 4),
        floats(6, 2, 3, 5),
    ),
    "vector": ms("FusedMatMul<transA = 1, transB = 1>", floats(5), floats(2, 4, 5)),
    "old name": ms("TransposeMatMul<transB = 1>", floats(2, 3, 5), floats(2, 4, 5)),
    "plain conv": ms("FusedConv", floats(1, 2, 5), floats(3, 2, 3)),
    "conv, clipped": conv("Clip", "[-0.2, 0.6]", floats(3), floats(1, 3, 4, 4)),
    "gemm without C": ms('FusedGemm<activation = "Softsign">', floats(2, 3), floats(3, 4)),
    "gemm, elu": gemm("Elu", "activation_alpha = 0.2"),
    "gemm, softplus": gemm("Softplus", ""),
    "gemm, thresholded": gemm("ThresholdedRelu", "activation_alpha = 0.3"),
    **{f"gemm, {name}": gemm(name, given) for name, (given, _) in ACTIVATIONS.items()},
    **{f"conv, {name}": conv(name, given, floats(3)) for name, (_, given) in ACTIVATIONS.items()},
    "whole numbers": ms(
        "MatMulIntegerToFloat",
        bytes_(2, 3),
        bytes_(3, 4, dtype=np.int8),
        np.float32(0.1),
        floats(4),
        np.uint8(50),
        None,
        floats(4, seed=1),
    ),
    "2 bits": n_bits(2, "none"),
    "2 bits, zero points": n_bits(2, "bytes"),
    "4 bits": n_bits(4, "none"),
    "4 bits, zero points": n_bits(4, "bytes"),
    "4 bits, floats": n_bits(4, "floats"),
    "8 bits": n_bits(8, "bytes"),
}
LAYERS = {
    "gelu": ms("Gelu", X),
    "bias gelu": ms("BiasGelu", X, floats(8)),
    "fast gelu": ms("FastGelu", X),
    "fast gelu, bias": ms("FastGelu", X, floats(8)),
    "quick gelu": ms("QuickGelu", X),
    "quick gelu, factor": ms("QuickGelu<alpha = 1.3>", X),
    "skip": ms("SkipLayerNormalization", X, floats(2, 3, 8, seed=1), floats(8)),
    "skip, all": ms(
        "SkipLayerNormalization<epsilon = 0.01>",
        X,
        floats(3, 8),
        floats(8),
        floats(8, seed=1),
        floats(8, seed=2),
        outputs="y, , , t",
    ),
    "skip, simplified": ms(
        "SkipSimplifiedLayerNormalization", X, floats(2, 3, 8, seed=1), floats(8)
    ),
    "skip, simplified, all": ms(
        "SkipSimplifiedLayerNormalization<epsilon = 0.01>",
        X,
        floats(2, 3, 8, seed=1),
        floats(8),
        floats(8, seed=1),
        outputs="y, , , t",
    ),
    "simplified": Case("SimplifiedLayerNormalization", [X, floats(8)]),
    "simplified, two axes": Case(
        "SimplifiedLayerNormalization<axis = 1, epsilon = 0.01>", [X, floats(3, 8)], "y, i"
    ),
    "embed": ms(
        "EmbedLayerNormalization<epsilon = 0.01>",
        whole([1, 2, 0], [3, 3, 1]),
        whole([0, 1, 0], [1, 1, 0]),
        floats(5, 8),
        floats(7, 8),
        floats(2, 8),
        floats(8),
        floats(8, seed=1),
        whole([1, 1, 0], [1, 0, 1]),
        outputs="y, counts, t",
    ),
    "embed, positions": ms(
        "EmbedLayerNormalization",
        whole([1, 2, 0], [3, 3, 1]),
        None,
        floats(5, 8),
        floats(7, 8),
        None,
        floats(8),
        floats(8, seed=1),
        None,
        whole([3, 1, 6]),
        outputs="y, counts",
    ),
}

INPUT, WEIGHTS, BIAS = floats(2, 3, 5), floats(5, 24), floats(24)
NOTHING = "nothing"
MASKS = {
    "keys": whole([1, 1, 0], [1, 0, 1]),
    "queries and keys": whole([[1, 0, 0], [1, 1, 0], [0, 1, 1]], [[1, 1, 1], [0, 1, 0], [1, 1, 1]]),
    "lengths": whole(2, 3),
    "ends and beginnings": whole(3, 2, 1, 0),
    NOTHING: whole([0, 0, 0], [1, 0, 1]),
}
Q, K, V = floats(2, 3, 8), floats(2, 4, 8), floats(2, 4, 12)
PAST = [floats(2, 2, 2, 4, seed=1), floats(2, 2, 2, 4, seed=2)]
ATTENTION = {
    "layer": ms("Attention<num_heads = 2>", INPUT, WEIGHTS, BIAS),
    "layer, no bias": ms("Attention<num_heads = 2, scale = 0.3>", INPUT, WEIGHTS),
    "layer, causal": ms("Attention<num_heads = 2, unidirectional = 1>", INPUT, WEIGHTS, BIAS),
    "layer, sizes": ms(
        "Attention<num_heads = 2, qkv_hidden_sizes = [8, 8, 12]>", INPUT, floats(5, 28), floats(28)
    ),
    "layer, past": ms(
        "Attention<num_heads = 2, unidirectional = 1>",
        INPUT,
        WEIGHTS,
        BIAS,
        None,
        floats(2, 2, 2, 2, 4),
        outputs="y, present",
    ),
    "layer, present": ms("Attention<num_heads = 2>", INPUT, WEIGHTS, BIAS, outputs="y, present"),
    "layer, added": ms(
        "Attention<num_heads = 2, mask_filter_value = -3.0>",
        INPUT,
        WEIGHTS,
        BIAS,
        MASKS["keys"],
        None,
        floats(1, 2, 3, 3),
    ),
    **{
        f"layer, mask of {name}": ms("Attention<num_heads = 2>", INPUT, WEIGHTS, BIAS, mask)
        for name, mask in MASKS.items()
    },
    "heads": ms("MultiHeadAttention<num_heads = 2>", Q, K, V),
    "heads, causal": ms("MultiHeadAttention<num_heads = 2, unidirectional = 1>", Q, K, V),
    "heads, bias": ms("MultiHeadAttention<num_heads = 2, scale = 0.3>", Q, K, V, floats(28)),
    "heads, lengths": ms("MultiHeadAttention<num_heads = 2>", Q, K, V, None, whole(2, 4)),
    "heads, mask and added": ms(
        "MultiHeadAttention<num_heads = 2>",
        Q,
        K,
        V,
        None,
        whole([1, 1, 0, 0], [1, 0, 1, 1]),
        floats(2, 1, 3, 4),
    ),
    "heads, past": ms(
        "MultiHeadAttention<num_heads = 2, unidirectional = 1>",
        Q,
        Q,
        floats(2, 3, 8, seed=1),
        None,
        None,
        None,
        *PAST,
        outputs="y, k, v",
    ),
    "heads, scores": ms("MultiHeadAttention<num_heads = 2>", Q, K, V, outputs="y, , , scores"),
    "heads, of another layer": ms(
        "MultiHeadAttention<num_heads = 2>",
        Q,
        floats(2, 2, 4, 4),
        floats(2, 2, 4, 4, seed=1),
        floats(24),
    ),
}
ANGLES = [floats(10, 2), floats(10, 2, seed=1)]
PLACES = np.array([[0, 4, 2], [9, 1, 3]])
ROTARY = {
    f"{name}{', interleaved' if interleaved else ''}": ms(
        f"RotaryEmbedding<interleaved = {interleaved}{more}>", tensor, places, *ANGLES
    )
    for interleaved in (0, 1)
    for name, more, tensor, places in (
        ("three axes", "", X, PLACES),
        ("offset", "", X, np.array([4])),
        ("four axes", "", floats(2, 2, 3, 4), PLACES),
        ("part", ", num_heads = 2, rotary_embedding_dim = 4", floats(2, 3, 12), PLACES),
    )
}


def grouped(
    attributes: str,
    new: int,
    past: int | None,
    total: int,
    *more: np.ndarray | None,
    packed: bool = False,
) -> Case:
    """Four heads of queries, two of keys and values, of size 16, in two batches."""
    tensors: list[np.ndarray | None] = [floats(2, new, 64), floats(2, new, 32), floats(2, new, 32)]
    if packed:
        tensors = [floats(2, new, 128), None, None]
    caches = [None, None] if past is None else [floats(2, 2, past, 16, seed=s) for s in (1, 2)]
    lengths = [whole(total - 1, total - 1), np.int32(total)]
    call = f"GroupQueryAttention<num_heads = 4, kv_num_heads = 2{attributes}>"
    return ms(call, *tensors, *caches, *lengths, *more, outputs="y, k, v")


ROTATED = [floats(16, 8), floats(16, 8, seed=1)]
GROUPED = {
    "prompt": grouped("", 3, None, 3),
    "prompt, rotary": grouped(", do_rotary = 1", 3, None, 3, *ROTATED),
    "prompt, packed": grouped(
        ", do_rotary = 1, rotary_interleaved = 1", 3, None, 3, *ROTATED, packed=True
    ),
    "window": grouped(", local_window_size = 2", 4, None, 4),
    "softcap": grouped(", softcap = 1.5, scale = 0.3", 3, None, 3),
    "smooth": grouped(", smooth_softmax = 1", 3, None, 3),
    "sink": grouped("", 3, None, 3, None, None, None, None, floats(4)),
    "added": grouped("", 3, None, 3, None, None, None, floats(2, 4, 3, 3)),
    "any order": grouped(", causal = 0", 3, None, 3),
    "one more": grouped(", do_rotary = 1", 1, 4, 5, *ROTATED),
    "one more, in a window": grouped(", local_window_size = 3", 1, 4, 5),
    "one more, with its place": grouped(", do_rotary = 1", 1, 4, 5, *ROTATED, np.array([[4], [4]])),
}
CASES = {**PRODUCTS, **LAYERS, **ATTENTION, **ROTARY, **GROUPED}
