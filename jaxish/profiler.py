"""jax.profiler: what ran when, and what holds memory."""

from ._profiler.annotations import StepTraceAnnotation as StepTraceAnnotation
from ._profiler.annotations import TraceAnnotation as TraceAnnotation
from ._profiler.annotations import annotate_function as annotate_function
from ._profiler.memory import device_memory_profile as device_memory_profile
from ._profiler.memory import save_device_memory_profile as save_device_memory_profile
from ._profiler.session import ProfileOptions as ProfileOptions
from ._profiler.session import register_subprocess as register_subprocess
from ._profiler.session import start_server as start_server
from ._profiler.session import start_trace as start_trace
from ._profiler.session import stop_server as stop_server
from ._profiler.session import stop_trace as stop_trace
from ._profiler.session import trace as trace
from ._profiler.xspace import ProfileData as ProfileData
from ._profiler.xspace import ProfileEvent as ProfileEvent
from ._profiler.xspace import ProfilePlane as ProfilePlane
