"""Damages files: bytes, messages of Protobuf at any depth, words of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

__all__ = ["mutate_bytes", "mutate_message", "mutate_text"]

_INTS = (
    0,
    1,
    -1,
    2,
    7,
    16,
    64,
    127,
    255,
    1024,
    2**31 - 1,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
)
_FLOATS = (0.0, -0.0, 1e-45, 1e38, float("inf"), float("-inf"), float("nan"), 0.5)
_WORDS = (
    "", " ", "x", "\0", "../secret", "/etc/passwd", "a/../../b", "ä\u202e", "n" * 5000, "-1", "2.5",
    "99999999999999999999", "Loop", "If", "Scan", "Constant", "Identity", "Reshape", "Expand",
    "SequenceAt", "NoSuchOperator", "com.microsoft", "ai.onnx.ml", "Conv", "Gather", "Cast",
)  # fmt: skip
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e-?\d+)?|=>|\S')
_TYPE = FieldDescriptor
_FLOAT_TYPES = (_TYPE.TYPE_FLOAT, _TYPE.TYPE_DOUBLE)


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Cut, flip, drop, repeat or overwrite bytes, in one to four places."""
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(found) + 1)
        piece = found[start : start + random.choice((1, 1, 2, 4, 8, 64))]
        flipped = bytes(byte ^ 1 << random.randrange(8) for byte in piece)
        others = [flipped, random.randbytes(len(piece)), bytes(len(piece)), b"\xff" * len(piece)]
        others += [b"", piece * random.choice((2, 3, 50))]
        found[start : start + len(piece)] = random.choice(others)
        if random.random() < 0.05:
            del found[start:]
    return bytes(found)


def mutate_message(message: Message, random: Random) -> bytes:
    """Change one to three fields, anywhere in a message, and return its bytes."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        everything = list(_walk(message))
        _change(random.choice(everything), everything, random)
    try:
        return message.SerializePartialToString()
    except (EncodeError, ValueError, RecursionError):  # it has become too deep or too large
        return b""


def mutate_text(data: bytes, random: Random) -> bytes:
    """Change one to three words of a text: numbers, names and signs; or damage its bytes."""
    if random.random() < 0.1:
        return mutate_bytes(data, random)
    text = data.decode("utf-8", "replace")
    for _ in range(random.choice((1, 1, 2, 3))):
        words = list(_TOKEN.finditer(text))
        if not words:
            break
        word = random.choice(words)
        text = text[: word.start()] + _other_word(word[0], words, random) + text[word.end() :]
    return text.encode()


def _other_word(word: str, words: list[re.Match[str]], random: Random) -> str:
    kind = random.choice(("drop", "twice", "other", "other", "value", "value", "odd", "deep"))
    if kind == "drop":
        return ""
    if kind == "twice":
        return f"{word} {word}"
    if kind == "value" and re.fullmatch(r"-?\d.*", word):
        return str(random.choice((*_INTS, *_FLOATS)))
    if kind == "odd":
        return random.choice((*_WORDS, "{", "}", "<", ">", "[", "(", '"', ",", "#"))
    if kind == "deep":
        return random.choice("([{<") * random.choice((3, 150, 20000))
    return random.choice(words)[0]


def _walk(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if _is_repeated(field) else [value]:
                yield from _walk(each)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _change(message: Message, everything: list[Message], random: Random) -> None:
    """Change one field of a message: mostly one that is set."""
    known = [field for field, _ in message.ListFields()]
    fields = known if known and random.random() < 0.8 else list(message.DESCRIPTOR.fields)
    field = random.choice(fields)
    if _is_repeated(field):
        _change_repeated(message, field, everything, random)
    elif random.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type is not None:
        _copy(getattr(message, field.name), field, everything, random)
    else:
        _assign(lambda value: setattr(message, field.name, value), field, everything, random)


def _change_repeated(
    message: Message, field: Any, everything: list[Message], random: Random
) -> None:
    values: Any = getattr(message, field.name)
    kind = random.choice(("drop", "twice", "swap", "new", "change", "change", "many", "none"))
    index = random.randrange(len(values)) if len(values) else 0
    if kind == "none" and random.random() < 0.3:
        message.ClearField(field.name)
    elif not len(values) or kind == "new":
        _append(values, field, everything, random)
    elif kind == "drop":
        del values[index]
    elif kind in ("twice", "many"):
        copies = 1 if kind == "twice" else random.choice((3, 70, 1000))
        if field.message_type is None or _size(values[index]) * copies < 2**16:
            values.extend([values[index]] * copies)
    elif kind == "swap" and len(values) > 1:
        kept = list(values)
        other = random.randrange(len(kept))
        kept[index], kept[other] = kept[other], kept[index]
        kept = [_clone(each) for each in kept]
        message.ClearField(field.name)
        getattr(message, field.name).extend(kept)
    elif field.message_type is not None:
        _copy(values[index], field, everything, random)
    else:
        _assign(lambda value: values.__setitem__(index, value), field, everything, random)


def _append(values: Any, field: Any, everything: list[Message], random: Random) -> None:
    if field.message_type is None:
        _assign(values.append, field, everything, random)
    else:
        _copy(values.add(), field, everything, random)


def _clone(value: Any) -> Any:
    if not isinstance(value, Message):
        return value
    copy = type(value)()
    copy.CopyFrom(value)
    return copy


def _copy(target: Message, field: Any, everything: list[Message], random: Random) -> None:
    """Put another message of the same kind there, perhaps one around it, or deep in itself."""
    alike = [each for each in everything if each.DESCRIPTOR is field.message_type]
    source = _clone(random.choice(alike)) if alike else type(target)()
    if _size(source) > 2**16:
        return
    if random.random() < 0.1:
        source = _nested(source, random.choice((3, 12, 28, 45, 90)))
    target.CopyFrom(source)


def _nested(message: Message, depth: int) -> Message:
    """Put a message into the innermost place for its kind, so many times over."""
    inner = next((each for each in _walk(message) if each is not message and
                  each.DESCRIPTOR is message.DESCRIPTOR), None)  # fmt: skip
    if inner is None:
        return message
    inner.Clear()
    shell = _clone(message)
    found = _clone(message)
    for _ in range(depth):
        around = _clone(shell)
        place = next(each for each in _walk(around) if each is not around and
                     each.DESCRIPTOR is message.DESCRIPTOR)  # fmt: skip
        place.CopyFrom(found)
        if _size(around) > 2**18:
            break
        found = around
    return found


def _size(message: Message) -> int:
    return len(message.SerializePartialToString())


def _assign(
    put: Callable[[Any], None], field: Any, everything: list[Message], random: Random
) -> None:
    value = _value(field, everything, random)
    try:
        put(value)
    except (ValueError, TypeError, DecodeError):  # out of the field's range
        put(1 if field.cpp_type not in (_TYPE.CPPTYPE_STRING,) else _empty(field))


def _empty(field: Any) -> str | bytes:
    return b"" if field.type == _TYPE.TYPE_BYTES else ""


def _value(field: Any, everything: list[Message], random: Random) -> Any:
    if field.enum_type is not None:
        return random.choice([value.number for value in field.enum_type.values])
    if field.type in _FLOAT_TYPES:
        return random.choice(_FLOATS)
    if field.type == _TYPE.TYPE_BYTES:
        return random.choice((b"", b"\xff\xfe", b"\0" * 8, random.randbytes(16), b"x" * 5000))
    if field.type == _TYPE.TYPE_STRING:
        return random.choice(_WORDS) if random.random() < 0.5 else _known_word(everything, random)
    return random.choice(_INTS) if random.random() < 0.5 else random.randint(-3, 40)


def _known_word(everything: list[Message], random: Random) -> str:
    """Return a string that stands somewhere in the message already."""
    for _ in range(20):
        for field, value in random.choice(everything).ListFields():
            if field.type == _TYPE.TYPE_STRING:
                return str(random.choice(value) if _is_repeated(field) else value)
    return "x"
