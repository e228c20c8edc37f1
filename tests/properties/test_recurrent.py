"""Recurrent layers: any numbers of steps and sequences, directions, layouts and inputs left out."""

from hypothesis import strategies as st
from tests.properties.drawn import examples, judge, numbers, whole

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# The optional inputs of each, in their order behind X, W and R.
OPTIONAL = {"RNN": "bnh", "GRU": "bnh", "LSTM": "bnhcp"}
OUTPUTS = {"RNN": ("y", "yh"), "GRU": ("y", "yh"), "LSTM": ("y", "yh", "yc")}


@examples(6)
def test_layers(draw):
    operator = draw(st.sampled_from(tuple(GATES)))
    direction = draw(st.sampled_from(("forward", "reverse", "bidirectional")))
    sides = 2 if direction == "bidirectional" else 1
    steps, batch = draw(st.integers(1, 3)), draw(st.integers(1, 2))  # ONNX Runtime aborts for 0
    features, hidden = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    rows = GATES[operator] * hidden
    shapes = {
        "x": (steps, batch, features),
        "w": (sides, rows, features),
        "r": (sides, rows, hidden),
        "b": (sides, 2 * rows),
        "h": (sides, batch, hidden),
        "c": (sides, batch, hidden),
        "p": (sides, 3 * hidden),
    }
    given, names = {}, []
    for which, name in enumerate("xwr" + OPTIONAL[operator]):
        if which > 2 and draw(st.booleans()):
            names.append("")
            continue
        names.append(name)
        if name == "n":
            given["n"] = whole(draw, (batch,), 0, steps, "int32")
        else:
            given[name] = numbers(draw, shapes[name], which)
    outputs = OUTPUTS[operator]
    of = draw(st.permutations(outputs))[: draw(st.integers(1, len(outputs)))]
    attributes = [f"hidden_size = {hidden}", f'direction = "{direction}"']
    if operator == "GRU":
        attributes.append(f"linear_before_reset = {draw(st.integers(0, 1))}")
    read = ", ".join(names).rstrip(", ")
    call = f"{operator}<{', '.join(attributes)}>({read})"
    judge(draw, call, outputs=outputs, of=of, **given)
