"""Protocol buffers as far as profiles need them: messages are bytes, put together and taken apart field by field."""

import struct
from collections.abc import Iterator
from typing import Any

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # how a field's value is written


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Return one field of a message: integers as varints, floats as doubles, texts and messages by length."""
    if isinstance(value, float):
        return _varint(number << 3 | DOUBLE) + struct.pack("<d", value)
    if isinstance(value, int):
        return _varint(number << 3 | VARINT) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are 64 bits long
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a message. Raises `ValueError` for bytes that are none."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _read_varint(message, at)
        elif kind in (DOUBLE, FLOAT):
            size = 8 if kind == DOUBLE else 4
            (value,) = struct.unpack("<d" if kind == DOUBLE else "<f", _cut(message, at, size))
            at += size
        elif kind == BYTES:
            length, at = _read_varint(message, at)
            value = _cut(message, at, length)
            at += length
        else:
            raise ValueError(f"no protocol buffer: a field of kind {kind} at byte {at}")
        yield tag >> 3, value


def _cut(message: bytes, at: int, length: int) -> bytes:
    if at + length > len(message):
        raise ValueError("no protocol buffer: it ends within a field")
    return message[at : at + length]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = _cut(message, at, 1)[0]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("no protocol buffer: a number longer than 64 bits")


def signed(value: int) -> int:
    """Return a varint's value as a signed number."""
    return value - (1 << 64) if value >> 63 else value
