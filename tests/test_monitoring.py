"""jax.monitoring: listeners hear what is recorded, and of tracing and compiling."""

import jax
import numpy as np
import pytest

import jaxish

KINDS = [
    ("record_event", "register_event_listener", "unregister_event_listener", ()),
    (
        "record_event_duration_secs",
        "register_event_duration_secs_listener",
        "unregister_event_duration_listener",
        (1.5,),
    ),
    ("record_event_time_span", "register_event_time_span_listener", "unregister_event_time_span_listener", (1.0, 2.5)),
    ("record_scalar", "register_scalar_listener", "unregister_scalar_listener", (7,)),
]


def heard(lib, record, register, unregister, values):
    calls, monitoring = [], lib.monitoring
    listener = lambda *args, **kwargs: calls.append((args, kwargs))
    getattr(monitoring, register)(listener)
    getattr(monitoring, record)("/test/event", *values, place="here")
    getattr(monitoring, unregister)(listener)
    getattr(monitoring, record)("/test/event", *values)
    with pytest.raises(AssertionError):
        getattr(monitoring, unregister)(listener)
    return calls


@pytest.mark.parametrize(("record", "register", "unregister", "values"), KINDS)
def test_listeners(record, register, unregister, values):
    found = heard(jaxish, record, register, unregister, values)
    assert found == heard(jax, record, register, unregister, values) and len(found) == 1


def test_clear_event_listeners_forgets_every_kind():
    calls = []
    for record, register, _, values in KINDS:
        getattr(jaxish.monitoring, register)(lambda *args, **kwargs: calls.append(args))
        jaxish.monitoring.clear_event_listeners()
        getattr(jaxish.monitoring, record)("/test/event", *values)
    assert calls == []


def durations_of(lib, run):
    seen = []
    listener = lambda event, seconds, **metadata: seen.append((event, metadata.get("fun_name"))) if seconds >= 0 else 0
    lib.monitoring.register_event_duration_secs_listener(listener)
    try:
        run()
    finally:
        lib.monitoring.unregister_event_duration_listener(listener)
    return seen


def test_a_trace_is_recorded_under_jax_s_name():
    def cube(x):
        return x * x * x

    wanted = ("/jax/core/compile/jaxpr_trace_duration", "cube")
    for lib in (jax, jaxish):
        jitted = lib.jit(cube)
        assert wanted in durations_of(lib, lambda: jitted(np.float32(2)))
        assert wanted not in durations_of(lib, lambda: jitted(np.float32(3)))


def test_compiling_is_recorded_under_jax_s_names(compiled):
    wanted = {f"/jax/core/compile/{stage}_duration" for stage in ("jaxpr_to_mlir_module", "backend_compile")}
    for lib in (jax, jaxish):
        run = lambda: lib.jit(lambda x: lib.numpy.sin(x) * 3 + x)(np.ones(5, np.float32))
        assert wanted <= {event for event, _ in durations_of(lib, run)}
