"""jax.monitoring: listeners to events, durations and numbers."""

from ._core.monitoring import clear_event_listeners as clear_event_listeners
from ._core.monitoring import record_event as record_event
from ._core.monitoring import record_event_duration_secs as record_event_duration_secs
from ._core.monitoring import record_event_time_span as record_event_time_span
from ._core.monitoring import record_scalar as record_scalar
from ._core.monitoring import register_event_duration_secs_listener as register_event_duration_secs_listener
from ._core.monitoring import register_event_listener as register_event_listener
from ._core.monitoring import register_event_time_span_listener as register_event_time_span_listener
from ._core.monitoring import register_scalar_listener as register_scalar_listener
from ._core.monitoring import unregister_event_duration_listener as unregister_event_duration_listener
from ._core.monitoring import unregister_event_listener as unregister_event_listener
from ._core.monitoring import unregister_event_time_span_listener as unregister_event_time_span_listener
from ._core.monitoring import unregister_scalar_listener as unregister_scalar_listener
