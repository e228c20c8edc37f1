"""Small models whose gradient graphs are on record, so that a review shows what a change does."""

from __future__ import annotations

MODELS: dict[str, tuple[str, list[str], list[str]]] = {
    "product": ("(float[N] x, float[N] w) => (float[N] y) { y = Mul(x, w) }", ["y"], ["x", "w"]),
    "broadcast": (
        "(float[N,3] x, float[3] b) => (float[N,3] y) { y = Add(x, b) }",
        ["y"],
        ["x", "b"],
    ),
    "broadcast_unknown": (
        "(float[A,B] x, float[C] b) => (float[P,Q] y) { y = Add(x, b) }",
        ["y"],
        ["x", "b"],
    ),
    "dense": (
        "(float[N,4] x, float[4,3] w, float[3] b) => (float[N,3] y) "
        "{ h = MatMul(x, w) z = Add(h, b) y = Relu(z) }",
        ["y"],
        ["x", "w", "b"],
    ),
    "softmax": ("(float[N,5] x) => (float[N,5] y) { y = Softmax(x) }", ["y"], ["x"]),
    "reduce_mean": (
        "(float[N,4] x) => (float[N] y) { axes = Constant<value_ints = [1]>() "
        "y = ReduceMean<keepdims = 0>(x, axes) }",
        ["y"],
        ["x"],
    ),
    "gather": ("(float[N,3] x, int64[K] i) => (float[K,3] y) { y = Gather(x, i) }", ["y"], ["x"]),
    "convolution": (
        "(float[N,2,H,W] x, float[4,2,3,3] w, float[4] b) => (float[N,4,P,Q] y) "
        "{ y = Conv<pads = [1,1,1,1]>(x, w, b) }",
        ["y"],
        ["x", "w", "b"],
    ),
    "layer_norm": (
        "(float[N,8] x, float[8] s, float[8] b) => (float[N,8] y) "
        "{ y = LayerNormalization(x, s, b) }",
        ["y"],
        ["x", "s", "b"],
    ),
    "if_other_weights": (
        """(bool p, float[2] x, float[2] w1, float[2] w2) => (float[2] y) {
      y = If(p) <then_branch = t () => (float[2] a) { h = Tanh(x) a = Mul(h, w1) },
        else_branch = e () => (float[2] b) { g = Mul(x, w2) b = Exp(g) }>
    }""",
        ["y"],
        ["x", "w1", "w2"],
    ),
    "loop_power": (
        """(int64 M, float x) => (float y) {
      one = Constant<value = float {1}>()
      y = Loop(M, , one) <body = b (int64 i, bool c, float v) => (bool go, float w) {
        go = Identity(c)
        w = Mul(v, x)
      }>
    }""",
        ["y"],
        ["x"],
    ),
    "loop_recurrent": (
        """(int64 M, float[1,4] y0, float[4,4] w) => (float[1,4] y) {
      y = Loop(M, , y0) <body = b (int64 i, bool c, float[1,4] v) => (bool go, float[1,4] u) {
        go = Identity(c)
        h = MatMul(v, w)
        u = Tanh(h)
      }>
    }""",
        ["y"],
        ["w", "y0"],
    ),
    "loop_newton": (
        """(float a) => (float x) {
      half = Constant<value = float {0.5}>()
      eps = Constant<value = float {1e-6}>()
      yes = Constant<value = bool {1}>()
      x = Loop(, yes, a) <body = b (int64 i, bool c, float v) => (bool go, float w) {
        q = Div(a, v)
        s = Add(v, q)
        w = Mul(half, s)
        d = Sub(w, v)
        e = Abs(d)
        go = Greater(e, eps)
      }>
    }""",
        ["x"],
        ["a"],
    ),
    "loop_scan_output": (
        """(int64 M, float[2] x, float[2,2] W) => (float[2] y, float[T,2] s) {
      y, s = Loop(M, , x)
        <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w, float[2] o) {
        go = Identity(c)
        w = MatMul(W, v)
        o = Sin(w)
      }>
    }""",
        ["y", "s"],
        ["x", "W"],
    ),
    "loop_nested": (
        """(int64 M, int64 K, float[2] x, float[2] a) => (float[2] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
        go = Identity(c)
        w = Loop(K, , v) <body = d (int64 j, bool e, float[2] p) => (bool on, float[2] q) {
          on = Identity(e)
          r = Mul(p, a)
          q = Sin(r)
        }>
      }>
    }""",
        ["y"],
        ["x", "a"],
    ),
    "loop_if": (
        """(int64 M, bool[K] f, float[1,2] x, float[2,2] W1, float[2,2] W2) => (float[1,2] y) {
      y = Loop(M, , x) <body = b (int64 i, bool c, float[1,2] v) => (bool go, float[1,2] w) {
        go = Identity(c)
        p = Gather(f, i)
        w = If(p) <then_branch = t () => (float[1,2] a) { m = MatMul(v, W1) a = Tanh(m) },
          else_branch = e () => (float[1,2] q) { q = MatMul(v, W2) }>
      }>
    }""",
        ["y"],
        ["x", "W1", "W2"],
    ),
    "scan_recurrent": (
        """(float[T,1,3] xs, float[1,2] h0, float[3,2] U, float[2,2] W, float[2] b) =>
          (float[1,2] h, float[T,1,2] hs) {
      h, hs = Scan<num_scan_inputs = 1,
        body = d (float[1,2] v, float[1,3] x) => (float[1,2] w, float[1,2] o) {
        m = MatMul(v, W)
        n = MatMul(x, U)
        s = Add(m, n)
        z = Add(s, b)
        w = Tanh(z)
        o = Mul(w, w)
      }>(h0, xs)
    }""",
        ["h", "hs"],
        ["xs", "h0", "U", "W", "b"],
    ),
    "lstm": (
        "(float[T,N,3] x, float[1,8,3] w, float[1,8,2] r, float[1,16] b) => (float[1,N,2] h) "
        "{ y, h = LSTM<hidden_size = 2>(x, w, r, b) }",
        ["h"],
        ["x", "w", "r", "b"],
    ),
    "unreachable": (
        "(float[2] x, float[2,2] u) => (float[2] y) { y = Neg(x) }",
        ["y"],
        ["x", "u"],
    ),
}
