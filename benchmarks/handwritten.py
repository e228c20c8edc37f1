"""Gradient graphs of y <- tanh(y·w), written by hand: the yardstick of the loop benchmark.

Every form computes the same three results from `trips`, `y0` and `w`: the loss (the sum of the
last y) and its gradients with respect to `w` and `y0`. They differ in what the forward loop keeps,
in what runs the trips backwards, and in how much of the work is taken out of the loop.
"""

from dataclasses import dataclass
from string import Template

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser

Array = npt.NDArray[np.floating]

_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'

_MODEL = Template("""
loop (int64 trips, float[1,$n] y0, float[$n,$n] w) => (float loss)
<bool go = {1}>
{
  y_last = Loop (trips, go, y0) <body = step (int64 i, bool c, float[1,$n] y)
      => (bool c, float[1,$n] y_next) {
    p = MatMul (y, w)
    y_next = Tanh (p)
  }>
  loss = ReduceSum <keepdims = 0> (y_last)
}""")

_TAPED = Template("""
taped_loop (int64 trips, float[1,$n] y0, float[$n,$n] w) => (float loss, float[rows,1,$n] Y)
<bool go = {1}>
{
  y_last, Y = Loop (trips, go, y0) <body = step (int64 i, bool c, float[1,$n] y)
      => (bool c, float[1,$n] y_next, float[1,$n] y) {
    p = MatMul (y, w)
    y_next = Tanh (p)
  }>
  loss = ReduceSum <keepdims = 0> (y_last)
}""")

_SIGNATURE = """
loop_gradient (int64 trips, float[1,$n] y0, float[$n,$n] w)
  => (float loss, float[$n,$n] w_grad, float[1,$n] y0_grad)
<bool go = {1}, int64 zero = {0}, int64 unit = {1}, float one = {1}, int64[2] rows = {-1,$n},
 int64[1] axis = {0}, int64[1] back = {-1}, int64[1] before = {-9223372036854775807}>
{
  some = Greater (trips, zero)
  y_shape = Shape (y0)
  dy_last = ConstantOfShape <value = float[1] {1}> (y_shape)
  w_shape = Shape (w)
  dw_zero = ConstantOfShape <value = float[1] {0}> (w_shape)
"""

# Scan refuses a tape without rows: without a trip the gradients are what the loss sends down.
_LOOP_FORWARD = (
    _SIGNATURE
    + """
  y_last, $tapes = Loop (trips, go, y0) <body = step (int64 i, bool c, float[1,$n] y)
      => (bool c, float[1,$n] y_next, $kept) {
    p = MatMul (y, w)
    y_next = Tanh (p)
  }>
  loss = ReduceSum <keepdims = 0> (y_last)
  w_grad, y0_grad = If (some) <
    then_branch = backward () => (float[$n,$n] dw, float[1,$n] dy0) {
      wT = Transpose <perm = [1,0]> (w)
      $backward
    },
    else_branch = nothing () => (float[$n,$n] dw_same, float[1,$n] dy_same) {
      dw_same = Identity (dw_zero)
      dy_same = Identity (dy_last)
    }>
}"""
)

# The condition never turns false, so that a Scan over rows nobody reads makes the same trips. It
# writes its tape in place, where a Loop collects one tensor per trip and joins them at the end.
_SCAN_FORWARD = (
    _SIGNATURE
    + """
  y_end, w_grad, y0_grad = If (some) <
    then_branch = both () => (float[1,$n] y_last, float[$n,$n] dw, float[1,$n] dy0) {
      count = Reshape (trips, back)
      ticks = ConstantOfShape <value = bool[1] {0}> (count)
      y_last, $tapes = Scan <num_scan_inputs = 1, body = step (float[1,$n] y, bool tick)
          => (float[1,$n] y_next, float[1,$n] y_same) {
        p = MatMul (y, w)
        y_next = Tanh (p)
        y_same = Identity (y)
      }> (y0, ticks)
      wT = Transpose <perm = [1,0]> (w)
      $backward
    },
    else_branch = nothing () => (float[1,$n] y_same, float[$n,$n] dw_same, float[1,$n] dy_same) {
      y_same = Identity (y0)
      dw_same = Identity (dw_zero)
      dy_same = Identity (dy_last)
    }>
  loss = ReduceSum <keepdims = 0> (y_end)
}"""
)

_PRODUCT = """
      y_rows = Reshape (Y, rows)
      d_rows = Reshape (D, rows)
      y_cols = Transpose <perm = [1,0]> (y_rows)
      dw = MatMul (y_cols, d_rows)"""

_SLOPES = """
      YY = Mul (Y, Y)
      S = Sub (one, YY)
      yy_last = Mul (y_last, y_last)
      s_last = Sub (one, yy_last)"""

_ONE_TAPE = (
    """
      yy_last = Mul (y_last, y_last)
      s_last = Sub (one, yy_last)
      dy0, s0, D = Scan <num_scan_inputs = 1, scan_input_directions = [1],
          scan_output_directions = [1], body = step_back
          (float[1,$n] dy, float[1,$n] s_next, float[1,$n] y)
          => (float[1,$n] dy_prev, float[1,$n] s, float[1,$n] d) {
        d = Mul (dy, s_next)
        dy_prev = MatMul (d, wT)
        yy = Mul (y, y)
        s = Sub (one, yy)
      }> (dy_last, s_last, Y)"""
    + _PRODUCT
)

_SLOPES_OUTSIDE = (
    _SLOPES
    + """
      dy0, s0, D = Scan <num_scan_inputs = 1, scan_input_directions = [1],
          scan_output_directions = [1], body = step_back
          (float[1,$n] dy, float[1,$n] s_next, float[1,$n] s)
          => (float[1,$n] dy_prev, float[1,$n] s_same, float[1,$n] d) {
        d = Mul (dy, s_next)
        dy_prev = MatMul (d, wT)
        s_same = Identity (s)
      }> (dy_last, s_last, S)"""
    + _PRODUCT
)

_TWO_TAPES = (
    """
      YY = Mul (Y_next, Y_next)
      S = Sub (one, YY)
      dy0, D = Scan <num_scan_inputs = 1, scan_input_directions = [1],
          scan_output_directions = [1], body = step_back
          (float[1,$n] dy, float[1,$n] s) => (float[1,$n] dy_prev, float[1,$n] d) {
        d = Mul (dy, s)
        dy_prev = MatMul (d, wT)
      }> (dy_last, S)"""
    + _PRODUCT
)

_LOOP_BACK = (
    _SLOPES
    + """
      last = Sub (trips, unit)
      dy0, s0, D_back = Loop (trips, go, dy_last, s_last) <body = step_back
          (int64 i, bool c, float[1,$n] dy, float[1,$n] s_next)
          => (bool c, float[1,$n] dy_prev, float[1,$n] s, float[1,$n] d) {
        row = Sub (last, i)
        s = Gather (S, row)
        d = Mul (dy, s_next)
        dy_prev = MatMul (d, wT)
      }>
      D = Slice (D_back, back, before, axis, back)"""
    + _PRODUCT
)

_ACCUMULATING = """
      yy_last = Mul (y_last, y_last)
      s_last = Sub (one, yy_last)
      dy0, s0, dw = Scan <num_scan_inputs = 1, scan_input_directions = [1], body = step_back
          (float[1,$n] dy, float[1,$n] s_next, float[$n,$n] sum, float[1,$n] y)
          => (float[1,$n] dy_prev, float[1,$n] s, float[$n,$n] sum_next) {
        d = Mul (dy, s_next)
        dy_prev = MatMul (d, wT)
        sum_next = Gemm <transA = 1> (y, d, sum)
        yy = Mul (y, y)
        s = Sub (one, yy)
      }> (dy_last, s_last, dw_zero, Y)"""


@dataclass(frozen=True)
class Form:
    """One way to write the gradient graph by hand."""

    graph: str
    backward: str
    tapes: str = "Y"
    kept: str = "float[1,$n] y"


FORMS = {
    "Loop and Scan, one tape": Form(_LOOP_FORWARD, _ONE_TAPE),
    "Loop and Scan, slopes outside": Form(_LOOP_FORWARD, _SLOPES_OUTSIDE),
    "Loop and Scan, two tapes": Form(
        _LOOP_FORWARD, _TWO_TAPES, "Y, Y_next", "float[1,$n] y, float[1,$n] y_next"
    ),
    "Loop and Scan, accumulating": Form(_LOOP_FORWARD, _ACCUMULATING),
    "Loop and Loop, slopes outside": Form(_LOOP_FORWARD, _LOOP_BACK),
    "Scan and Scan, one tape": Form(_SCAN_FORWARD, _ONE_TAPE),
    "Scan and Scan, slopes outside": Form(_SCAN_FORWARD, _SLOPES_OUTSIDE),
}


def forward_model(n: int) -> onnx.ModelProto:
    """The loop itself, with the sum of the last y as its loss."""
    return _parse(_MODEL.substitute(n=n))


def taped_model(n: int) -> onnx.ModelProto:
    """The loop with a tape of one value per trip: what any reverse pass must at least keep."""
    return _parse(_TAPED.substitute(n=n))


def gradient_model(form: str, n: int) -> onnx.ModelProto:
    """The hand-written gradient graph of `forward_model(n)` in one of `FORMS`."""
    parts = FORMS[form]
    text = Template(parts.graph).safe_substitute(
        backward=parts.backward, tapes=parts.tapes, kept=parts.kept
    )
    return _parse(Template(text).substitute(n=n))


def _parse(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(_HEADER + text)
    onnx.checker.check_model(model, full_check=True)
    return model


def expected(trips: int, y0: Array, w: Array) -> tuple[Array, Array, Array]:
    """The loss and its gradients with respect to w and y0, in float64 numpy."""
    y0, w = y0.astype(np.float64), w.astype(np.float64)
    y = np.empty((trips + 1, w.shape[0]))
    d = np.empty((trips, w.shape[0]))
    y[0] = y0[0]
    for t in range(trips):
        y[t + 1] = np.tanh(y[t] @ w)
    dy = np.ones_like(y0)
    for t in reversed(range(trips)):
        d[t] = dy[0] * (1 - y[t + 1] ** 2)
        dy = d[t : t + 1] @ w.T
    return y[-1].sum(), y[:-1].T @ d, dy
