from collections.abc import Callable
from typing import Any

import pytest

from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import Argument, NetDef, OperatorDef

OP = OperatorDef(
    type="X",
    output=["y"],
    arg=[
        Argument(name="i", i=2),
        Argument(name="f", f=0.5),
        Argument(name="whole", f=3.0),
        Argument(name="s", s=b"NCHW"),
        Argument(name="bad", s=b"\xff"),
        Argument(name="ints", ints=[1, 2]),
        Argument(name="floats", floats=[0.5]),
        Argument(name="strings", strings=[b"a"]),
        Argument(name="net", n=NetDef(name="n")),
        Argument(name="empty"),
    ],
)
ARGS = Arguments(OP)


def test_what_is_there() -> None:
    assert ARGS.int("i") == 2
    assert ARGS.int("whole") == 3
    assert ARGS.bool("i") is True
    assert ARGS.float("f") == 0.5
    assert ARGS.float("i") == 2.0
    assert ARGS.string("s") == "NCHW"
    assert ARGS.ints("ints") == [1, 2]
    assert ARGS.ints("i") == [2]
    assert ARGS.ints("empty") == []
    assert ARGS.floats("floats") == [0.5]
    assert ARGS.floats("ints") == [1.0, 2.0]
    assert ARGS.strings("strings") == [b"a"]
    assert ARGS.names("strings") == ["a"]
    assert ARGS.net("net").name == "n"
    assert ARGS.has("i")
    assert not ARGS.has("j")


def test_defaults() -> None:
    assert ARGS.int("j", 7) == 7
    assert ARGS.ints("j", []) == []
    assert ARGS.string("j", "NHWC") == "NHWC"


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: ARGS.int("j"), "X (writes 'y') needs the argument 'j', an integer."),
        (lambda: ARGS.net("j"), "X (writes 'y') needs the argument 'j', a net."),
        (lambda: ARGS.int("f"), "X (writes 'y'): its argument 'f' must hold an integer."),
        (lambda: ARGS.int("s"), "X (writes 'y'): its argument 's' must hold an integer."),
        (lambda: ARGS.string("i"), "X (writes 'y'): its argument 'i' must hold a string."),
        (lambda: ARGS.string("bad"), "X (writes 'y'): its argument 'bad' must hold a string."),
        (lambda: ARGS.ints("floats"), "X (writes 'y'): its argument 'floats' must hold integers."),
        (lambda: ARGS.net("i"), "X (writes 'y'): its argument 'i' must hold a net."),
    ],
)
def test_what_is_missing_or_of_another_kind(read: Callable[[], Any], said: str) -> None:
    with pytest.raises(NetDefError) as caught:
        read()
    assert str(caught.value) == said
