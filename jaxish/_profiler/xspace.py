"""Profiles as TensorBoard has them (XSpace): planes of lines of events, written and read.

A plane is a device or the host, a line one of its streams or threads. Names of events and statistics stand once per plane,
in tables; on the wire events refer to them by number.
"""

import os
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import protobuf

Stats = tuple[tuple[str, Any], ...]

# The fields of the messages (tsl/profiler/protobuf/xplane.proto).
_SPACE_PLANES = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENT_NAMES, _PLANE_STAT_NAMES, _PLANE_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_START_NS, _LINE_EVENTS = 1, 2, 3, 4
_EVENT_NAME, _EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 1, 2, 3, 4
_STAT_NAME, _STAT_DOUBLE, _STAT_UNSIGNED, _STAT_SIGNED, _STAT_TEXT, _STAT_BYTES, _STAT_REFERENCE = range(1, 8)
_ENTRY_KEY, _ENTRY_VALUE = 1, 2  # of a map
_METADATA_ID, _METADATA_NAME = 1, 2


@dataclass(frozen=True)
class ProfileEvent:
    """Something that took time; times are in whole nanoseconds since the profile started."""

    name: str
    start_ns: float
    duration_ns: float
    _stats: Stats = ()

    @property
    def end_ns(self) -> float:
        """When it ended."""
        return self.start_ns + self.duration_ns

    @property
    def stats(self) -> Iterator[tuple[str, Any]]:
        """What else is known of it: names and values."""
        return iter(self._stats)


@dataclass(frozen=True)
class ProfileLine:
    """The events of a thread or a stream."""

    name: str
    _events: list[ProfileEvent] = field(default_factory=list)

    @property
    def events(self) -> Iterator[ProfileEvent]:
        """The events."""
        return iter(self._events)


@dataclass(frozen=True)
class ProfilePlane:
    """What happened on the host or on a device."""

    name: str
    _lines: list[ProfileLine] = field(default_factory=list)
    _stats: Stats = ()

    @property
    def lines(self) -> Iterator[ProfileLine]:
        """The threads or streams."""
        return iter(self._lines)

    @property
    def stats(self) -> Iterator[tuple[str, Any]]:
        """What else is known of it: names and values."""
        return iter(self._stats)


class ProfileData:
    """A profile that was written by `jax.profiler.trace`, here or by JAX: `from_file("....xplane.pb")`."""

    def __init__(self, planes: Iterable[ProfilePlane]) -> None:
        self._planes = list(planes)

    @staticmethod
    def from_file(proto_file_path: str | os.PathLike[str]) -> "ProfileData":
        """Read a profile from its `.xplane.pb` file."""
        return ProfileData.from_serialized_xspace(pathlib.Path(proto_file_path).read_bytes())

    @staticmethod
    def from_serialized_xspace(serialized_xspace: bytes) -> "ProfileData":
        """Read a profile from the bytes of its `.xplane.pb` file. Raises `RuntimeError` for other bytes."""
        try:
            return ProfileData(_plane(p) for n, p in protobuf.fields(serialized_xspace) if n == _SPACE_PLANES)
        except (ValueError, TypeError, AttributeError) as error:
            raise RuntimeError(f"Failed to parse XSpace from array: {error}") from None

    @staticmethod
    def from_text_proto(text: str, /) -> "ProfileData":
        """Refused: profiles are read in their binary form."""
        raise NotImplementedError("Text protos are not read; use ProfileData.from_file with the .xplane.pb file.")

    @staticmethod
    def text_proto_to_serialized_xspace(text: str, /) -> bytes:
        """Refused: profiles are written in their binary form."""
        raise NotImplementedError("Text protos are not read; jax.profiler.trace writes profiles in binary form.")

    @staticmethod
    def from_raw_cpp_ptr(capsule: Any) -> "ProfileData":
        """Refused: there are no profiles of XLA's in memory."""
        raise NotImplementedError("There is no XSpace of C++ here; use ProfileData.from_file.")

    @property
    def planes(self) -> Iterator[ProfilePlane]:
        """The host and the devices."""
        return iter(self._planes)

    def find_plane_with_name(self, name: str) -> ProfilePlane | None:
        """Return the plane of this name, None where there is none."""
        return next((plane for plane in self._planes if plane.name == name), None)


# ------------------------------------------------------------------------------------------------------------- writing


def serialized(planes: Iterable[ProfilePlane]) -> bytes:
    """Return the planes as the bytes of an XSpace."""
    return b"".join(protobuf.field(_SPACE_PLANES, _plane_bytes(plane)) for plane in planes)


class _Names:
    """The names of a plane's events or statistics, numbered as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    def table(self, number: int) -> bytes:
        """Return the table as a field of the plane."""
        rows = []
        for name, id in self.numbers.items():
            metadata = protobuf.field(_METADATA_ID, id) + protobuf.field(_METADATA_NAME, name)
            rows.append(protobuf.field(_ENTRY_KEY, id) + protobuf.field(_ENTRY_VALUE, metadata))
        return b"".join(protobuf.field(number, row) for row in rows)


def _plane_bytes(plane: ProfilePlane) -> bytes:
    event_names, stat_names = _Names(), _Names()

    def stats(number: int, pairs: Stats) -> bytes:
        return b"".join(
            protobuf.field(number, protobuf.field(_STAT_NAME, stat_names(k)) + _stat_value(v)) for k, v in pairs
        )

    def event(e: ProfileEvent) -> bytes:
        return (
            protobuf.field(_EVENT_NAME, event_names(e.name))
            + protobuf.field(_EVENT_OFFSET_PS, round(e.start_ns * 1000))
            + protobuf.field(_EVENT_DURATION_PS, round(e.duration_ns * 1000))
            + stats(_EVENT_STATS, e._stats)
        )

    def line(id: int, row: ProfileLine) -> bytes:
        events = b"".join(protobuf.field(_LINE_EVENTS, event(e)) for e in row.events)
        return protobuf.field(_LINE_ID, id) + protobuf.field(_LINE_NAME, row.name) + events

    lines = b"".join(protobuf.field(_PLANE_LINES, line(i, row)) for i, row in enumerate(plane.lines))
    own = stats(_PLANE_STATS, plane._stats)
    tables = event_names.table(_PLANE_EVENT_NAMES) + stat_names.table(_PLANE_STAT_NAMES)
    return protobuf.field(_PLANE_NAME, plane.name) + lines + tables + own


def _stat_value(value: Any) -> bytes:
    if isinstance(value, float):
        return protobuf.field(_STAT_DOUBLE, value)
    if isinstance(value, int):
        return protobuf.field(_STAT_SIGNED, int(value))
    return protobuf.field(_STAT_TEXT, str(value))


# ------------------------------------------------------------------------------------------------------------- reading


def _by_number(message: Any) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in protobuf.fields(message):
        found.setdefault(number, []).append(value)
    return found


def _first(found: dict[int, list[Any]], number: int, default: Any) -> Any:
    return found.get(number, [default])[0]


def _plane(message: Any) -> ProfilePlane:
    found = _by_number(message)
    event_names, stat_names = (_table(found.get(n, ())) for n in (_PLANE_EVENT_NAMES, _PLANE_STAT_NAMES))

    def stats(messages: Iterable[Any]) -> Stats:
        return tuple(_stat(_by_number(m), stat_names) for m in messages)

    def event(message: Any, start_ns: int) -> ProfileEvent:
        found = _by_number(message)
        offset, duration = (_first(found, n, 0) for n in (_EVENT_OFFSET_PS, _EVENT_DURATION_PS))
        name = event_names.get(_first(found, _EVENT_NAME, 0), "")
        times = float(start_ns + offset // 1000), float(duration // 1000)
        return ProfileEvent(name, *times, stats(found.get(_EVENT_STATS, ())))

    def line(message: Any) -> ProfileLine:
        found = _by_number(message)
        start_ns = _first(found, _LINE_START_NS, 0)
        events = [event(m, start_ns) for m in found.get(_LINE_EVENTS, ())]
        return ProfileLine(_first(found, _LINE_NAME, b"").decode(), events)

    lines = [line(m) for m in found.get(_PLANE_LINES, ())]
    return ProfilePlane(_first(found, _PLANE_NAME, b"").decode(), lines, stats(found.get(_PLANE_STATS, ())))


def _table(rows: Iterable[Any]) -> dict[int, str]:
    names = {}
    for row in map(_by_number, rows):
        metadata = _by_number(_first(row, _ENTRY_VALUE, b""))
        names[_first(row, _ENTRY_KEY, 0)] = _first(metadata, _METADATA_NAME, b"").decode()
    return names


def _stat(found: dict[int, list[Any]], names: dict[int, str]) -> tuple[str, Any]:
    values: dict[int, Any] = {number: value[0] for number, value in found.items() if number != _STAT_NAME}
    number, value = next(iter(values.items()), (_STAT_TEXT, b""))
    if number == _STAT_SIGNED:
        value = protobuf.signed(int(value))
    elif isinstance(value, bytes):
        value = value.decode(errors="replace")
    elif number == _STAT_REFERENCE:
        value = names.get(value, "")
    return names.get(_first(found, _STAT_NAME, 0), ""), value
