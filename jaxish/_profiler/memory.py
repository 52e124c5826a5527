"""What holds the devices' memory: `jax.profiler.device_memory_profile`, in pprof's format.

A sample is a live array: one allocation and its bytes, labelled with its device. Where an array was made torch does not
note on the CPU; its type stands in the place of the stack.
"""

import gzip
import os
import pathlib
from collections import Counter

from .._core.array import is_tracer, type_text
from .._devices import devices
from .._transforms.environment import live_arrays
from .protobuf import field

# The fields of the messages (pprof's profile.proto).
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6
_TYPE, _UNIT = 1, 2
_SAMPLE_LOCATION, _SAMPLE_VALUE, _SAMPLE_LABEL = 1, 2, 3
_LABEL_KEY, _LABEL_TEXT = 1, 2
_ID, _FUNCTION_NAME, _LOCATION_LINE, _LINE_FUNCTION = 1, 2, 4, 1


class _Strings:
    """A profile's table of texts, which begins with the empty one."""

    def __init__(self) -> None:
        self.numbers = {"": 0}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def device_memory_profile(backend: str | None = None) -> bytes:
    """Return a profile of the arrays that hold memory, on the devices of one platform if given, for `pprof`."""
    arrays = [x for x in live_arrays(backend) if not is_tracer(x)]  # whose memory is that of what they wrap
    own = {x._tensor.untyped_storage().data_ptr(): x for x in arrays if x._tensor.device.type != "xla"}  # views once
    held = Counter((type_text(x), str(devices.of(x._tensor)), x.nbytes) for x in own.values())
    strings = _Strings()

    def value_type(kind: str, unit: str) -> bytes:
        return field(_SAMPLE_TYPE, field(_TYPE, strings(kind)) + field(_UNIT, strings(unit)))

    def label(key: str, text: str) -> bytes:
        return field(_SAMPLE_LABEL, field(_LABEL_KEY, strings(key)) + field(_LABEL_TEXT, strings(text)))

    body = value_type("allocations", "count") + value_type("space", "bytes")
    for number, ((name, device, size), count) in enumerate(sorted(held.items()), 1):
        values = field(_SAMPLE_VALUE, count) + field(_SAMPLE_VALUE, count * size)
        labels = label("kind", "buffer") + label("device", device)
        body += field(_SAMPLE, field(_SAMPLE_LOCATION, number) + values + labels)
        line = field(_LOCATION_LINE, field(_LINE_FUNCTION, number))
        body += field(_LOCATION, field(_ID, number) + line)
        body += field(_FUNCTION, field(_ID, number) + field(_FUNCTION_NAME, strings(name)))
    return gzip.compress(body + b"".join(field(_STRINGS, text) for text in strings.numbers))


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file."""
    pathlib.Path(filename).write_bytes(device_memory_profile(backend))
