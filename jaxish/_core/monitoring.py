"""Events that listeners hear of: `jax.monitoring`. What is traced and compiled here is recorded under JAX's names."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TRACE = "/jax/core/compile/jaxpr_trace_duration"
LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"

_events: list[Callable[..., None]] = []
_durations: list[Callable[..., None]] = []
_time_spans: list[Callable[..., None]] = []
_scalars: list[Callable[..., None]] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Call the listeners to events."""
    for callback in tuple(_events):
        callback(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Call the listeners to durations."""
    for callback in tuple(_durations):
        callback(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Call the listeners to time spans, which are in seconds since the epoch."""
    for callback in tuple(_time_spans):
        callback(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Call the listeners to scalars."""
    for callback in tuple(_scalars):
        callback(event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Have `callback(event, **metadata)` called by `record_event`."""
    _events.append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Have `callback(event, seconds, **metadata)` called by `record_event_duration_secs`."""
    _durations.append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Have `callback(event, start, end, **metadata)` called by `record_event_time_span`."""
    _time_spans.append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Have `callback(event, value, **metadata)` called by `record_scalar`."""
    _scalars.append(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Undo `register_event_listener`. Raises `AssertionError` for a callback that is no listener."""
    _remove(_events, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Undo `register_event_duration_secs_listener`. Raises `AssertionError` for a callback that is no listener."""
    _remove(_durations, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Undo `register_event_time_span_listener`. Raises `AssertionError` for a callback that is no listener."""
    _remove(_time_spans, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Undo `register_scalar_listener`. Raises `AssertionError` for a callback that is no listener."""
    _remove(_scalars, callback)


def _remove(listeners: list[Callable[..., None]], callback: Callable[..., None]) -> None:
    if callback not in listeners:
        raise AssertionError(f"{callback!r} is not registered as a listener of this kind")
    listeners.remove(callback)


def clear_event_listeners() -> None:
    """Forget all listeners, of every kind."""
    for listeners in (_events, _durations, _time_spans, _scalars):
        listeners.clear()


class Timer:
    """How long a block took: `seconds` is there after it."""

    seconds: float = 0.0


@contextmanager
def timed(event: str, **kwargs: Any) -> Iterator[Timer]:
    """Record how long the block takes: its start as a scalar, its end as a duration and a time span, as JAX does."""
    timer, start = Timer(), time.time()
    record_scalar(event, start, **kwargs)
    try:
        yield timer
    finally:
        end = time.time()
        timer.seconds = end - start
        record_event_duration_secs(event, timer.seconds, **kwargs)
        record_event_time_span(event, start, end, **kwargs)
