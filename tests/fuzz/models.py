"""Models that are damaged: what files can hold that others do not."""

from __future__ import annotations

__all__ = ["EXTERNAL", "MODELS"]

FUNCTIONS = """<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
model (float[N,3] x, float[3] w) => (float[N,3] y) {
    h = my.scaled<alpha = 0.5>(x, w)
    y = my.twice(h)
}
<opset_import: ["" : 21], domain: "my">
scaled <alpha>(a, b) => (c) {
    f = Constant<value_float: float = @alpha>()
    p = Mul(a, b)
    c = Mul(p, f)
}
<opset_import: ["" : 21, "my" : 1], domain: "my">
twice (a) => (c) { s = Tanh(a) c = Add(s, s) }"""

SEQUENCES = """<ir_version: 10, opset_import: ["" : 21]>
model (float[4,2] x, int64 n) => (float[2] y, seq(float[2]) rows) {
    s = SplitToSequence<axis = 0, keepdims = 0>(x)
    e = SequenceEmpty<dtype = 1>()
    rows = Loop(n, , e) <body = g (int64 i, bool c, seq(float[2]) q) => (bool go, seq(float[2]) r) {
        a = SequenceAt(s, i)
        b = Tanh(a)
        r = SequenceInsert(q, b)
        go = Identity(c)
    }>
    axis = Constant<value = int64[1] {0}>()
    t = ConcatFromSequence<axis = 0, new_axis = 1>(rows)
    y = ReduceSum<keepdims = 0>(t, axis)
}"""

OPTIONALS = """<ir_version: 10, opset_import: ["" : 21]>
model (float[2] x, bool p) => (float[2] y) {
    o = If(p) <then_branch = t () => (optional(float[2]) a) { h = Sin(x) a = Optional(h) },
               else_branch = e () => (optional(float[2]) b) { b = Optional<type = float[2]>() }>
    has = OptionalHasElement(o)
    y = If(has) <then_branch = u () => (float[2] c) { c = OptionalGetElement(o) },
                 else_branch = v () => (float[2] d) { d = Neg(x) }>
}"""

QUANTIZED = """<ir_version: 10, opset_import: ["" : 21]>
model (float[N,4] x) => (float[N,2] y)
    <float s = {0.1}, int8 z = {3}, int8[4,2] w = {1,-2,3,4,-5,6,7,-8}, float[2] t = {0.5,0.25},
     int4[4] k = {1,-2,3,-4}> {
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    v = DequantizeLinear<axis = 1>(w, t)
    f = Cast<to = 1>(k)
    m = Mul(d, f)
    y = MatMul(m, v)
}"""

TYPES = """<ir_version: 10, opset_import: ["" : 21]>
model (float16[2] x, int64[K] i) => (float[K] y, string[1] name)
    <float16[2] h = {1, 2}, double[2] d = {0.5, -0.5}, bool[2] b = {1, 0}, uint8[2] u = {1, 255},
     string[1] s = {"a"}, float[0] empty = {}> {
    p = Mul(x, h)
    f = Cast<to = 1>(p)
    e = Cast<to = 1>(d)
    w = Where(b, f, e)
    c = Concat<axis = 0>(w, empty)
    y = Gather(c, i)
    name = Identity(s)
}"""

LAYERS = """<ir_version: 8, opset_import: ["" : 17]>
model (float[N,2,6,6] x) => (float[N,3] p)
    <float[2] s = {1,1}, float[2] c = {0,0}, float[2] m = {0,0}, float[2] v = {1,1},
     float[3,2,1,1] k = {1,2,3,4,5,6}, int64[2] shape = {0,-1},
     float[3,3] w = {1,0,0,0,1,0,0,0,1}> {
    n = BatchNormalization(x, s, c, m, v)
    z = Conv<kernel_shape = [1, 1]>(n, k)
    q = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(z)
    a = GlobalAveragePool(q)
    r = Reshape(a, shape)
    ratio = Constant<value = float {0.5}>()
    t, mask = Dropout(r, ratio)
    g = Gemm<transB = 1>(t, w)
    p = Softmax(g)
}"""

NEWTON = """<ir_version: 10, opset_import: ["" : 21]>
model (double a, double start) => (double root) {
    yes = Constant<value = bool {1}>()
    two = Constant<value = double {2.0}>()
    small = Constant<value = double {1e-6}>()
    most = Constant<value = int64 {50}>()
    root = Loop (most, yes, start) <body = g (int64 i, bool c, double x) => (bool go, double z) {
        q = Div(a, x)
        s = Add(x, q)
        z = Div(s, two)
        move = Sub(z, x)
        far = Abs(move)
        go = Greater(far, small)
    }>
}"""

# One weight is in the model, two are in `w.bin` beside it.
EXTERNAL = """<ir_version: 8, opset_import: ["" : 17]>
model (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = ["location": "w.bin", "offset": "4", "length": "16"],
     float[2] b = ["location": "w.bin", "offset": "20", "length": "8"], float[2] c = {1, 2}> {
    h = MatMul(x, w)
    k = Add(h, b)
    y = Mul(k, c)
}"""

MODELS = {
    "functions": FUNCTIONS,
    "sequences": SEQUENCES,
    "optionals": OPTIONALS,
    "quantized": QUANTIZED,
    "types": TYPES,
    "layers": LAYERS,
    "newton": NEWTON,
}
