"""Profiles over a stretch of time: `jax.profiler.trace`, by torch's profiler.

A profile is a folder `plugins/profile/<time>` below the one given, as TensorBoard looks for it, with a file for
TensorBoard (`.xplane.pb`) and one for Perfetto and Chrome (`.trace.json.gz`).

Private torch API used here (tried on 2.13): `_ExperimentalConfig`, for `profile_all_threads`.
"""

import gzip
import json
import os
import pathlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .. import version
from . import annotations, perfetto
from .xspace import ProfileEvent, ProfileLine, ProfilePlane, serialized

_HOST = "/host:CPU"


@dataclass
class ProfileOptions:
    """What a profile contains. `host_tracer_level` 0 leaves the host's operators out, `python_tracer_level` 0 Python's functions."""

    host_tracer_level: int = 2
    python_tracer_level: int = 1
    enable_hlo_proto: bool = True
    raise_error_on_start_failure: bool = False
    session_id: str = ""
    repository_path: str = ""
    duration_ms: int = 0
    start_timestamp_ns: int = 0
    include_dataset_ops: bool = False
    advanced_configuration: dict[str, Any] = field(default_factory=dict)


_WITHOUT_MEANING = (
    "repository_path", "duration_ms", "start_timestamp_ns", "include_dataset_ops", "advanced_configuration",
)  # fmt: skip


@dataclass
class _Session:
    profile: Any
    folder: pathlib.Path
    perfetto: bool
    link: bool
    started_ns: int


_session: _Session | None = None
_lock = threading.Lock()


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Start to take a profile, which `stop_trace` writes below `log_dir`, where TensorBoard finds it.

    `create_perfetto_trace` writes `perfetto_trace.json.gz`, too, for https://ui.perfetto.dev; with `create_perfetto_link` its
    address is printed, and `stop_trace` waits until it was opened. Raises `RuntimeError` while a profile is being taken.
    """
    global _session
    options = profiler_options or ProfileOptions()
    for name in _WITHOUT_MEANING:
        if getattr(options, name):
            raise NotImplementedError(f"ProfileOptions.{name} has no counterpart in torch's profiler; leave it unset.")
    with _lock:
        if _session is not None:
            raise RuntimeError("Profile has already been started. Only one profile may be run at a time.")
        run = options.session_id or time.strftime("%Y_%m_%d_%H_%M_%S")
        folder = pathlib.Path(log_dir) / "plugins" / "profile" / run
        profile = _torch_profile(options)
        profile.start()
        annotations.start()
        wanted = create_perfetto_trace or create_perfetto_link
        _session = _Session(profile, folder, wanted, create_perfetto_link, time.time_ns())


def _torch_profile(options: ProfileOptions) -> Any:
    import torch
    from torch._C._profiler import _ExperimentalConfig

    activities = set(torch.profiler.supported_activities())
    if not options.host_tracer_level:
        activities -= {torch.profiler.ProfilerActivity.CPU}
    return torch.profiler.profile(
        activities=activities or None,
        with_stack=options.python_tracer_level > 0,
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    )


def stop_trace() -> None:
    """Stop taking the profile, and write it. Raises `RuntimeError` where none was started."""
    global _session
    with _lock:
        if _session is None:
            raise RuntimeError("No profile started")
        session, _session = _session, None
        session.profile.stop()
        parted = annotations.take()
        chrome = _chrome_trace(session.profile, parted)
    session.folder.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    (session.folder / f"{host}.xplane.pb").write_bytes(serialized(_planes(chrome, session.started_ns)))
    _write_json(session.folder / f"{host}.trace.json.gz", chrome)
    if session.perfetto:
        path = session.folder / "perfetto_trace.json.gz"
        _write_json(path, chrome)
        if session.link:
            perfetto.serve(path)


@contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Take a profile of the block: `start_trace` before it, `stop_trace` after it."""
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def _write_json(path: pathlib.Path, value: Any) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(value, file)


def _chrome_trace(profile: Any, parted: Callable[[str], tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return torch's profile as it writes it for Chrome, the annotations with their own names and metadata."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    for event in found["traceEvents"]:
        name, metadata = parted(event["name"])
        if name != event["name"]:
            event["name"], event["args"] = name, metadata
    return {"displayTimeUnit": "ns", "traceEvents": found["traceEvents"]}


_DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
_STATISTICS = {"user_annotation", *_DEVICE_CATEGORIES}  # whose arguments say more than torch's own numbers


def _planes(chrome: dict[str, Any], started_ns: int) -> list[ProfilePlane]:
    """Return the events of a profile by host and device, thread and stream."""
    events = chrome["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    timed = [e for e in events if e["ph"] == "X" and e.get("cat") != "Trace"]
    zero = min((e["ts"] for e in timed), default=0.0)
    rows: dict[tuple[str, str], list[ProfileEvent]] = {}
    for e in timed:
        on_device = e.get("cat") in _DEVICE_CATEGORIES
        plane = f"/device:GPU:{e['pid']}" if on_device else _HOST
        line = f"Stream #{e['tid']}" if on_device else threads.get((e["pid"], e["tid"]), str(e["tid"]))
        stats = tuple(e.get("args", {}).items()) if e.get("cat") in _STATISTICS else ()
        event = ProfileEvent(e["name"], (e["ts"] - zero) * 1000, e.get("dur", 0) * 1000, stats)
        rows.setdefault((plane, line), []).append(event)
    planes = {_HOST: ProfilePlane(_HOST, [], (("process_id", os.getpid()),))}
    for (plane, line), found in sorted(rows.items()):
        planes.setdefault(plane, ProfilePlane(plane, []))._lines.append(ProfileLine(line, found))
    return [*_about(started_ns), *planes.values()]


def _about(started_ns: int) -> list[ProfilePlane]:
    import torch

    versions = (("jaxish_version", version.__version__), ("torch_version", str(torch.__version__)))
    times = (("profile_start_time", started_ns), ("profile_stop_time", time.time_ns()))
    return [ProfilePlane("/host:metadata", [], versions), ProfilePlane("Task Environment", [], times)]


# ------------------------------------------------------------------------------------------------------------- servers


def start_server(port: int, requires_backend: bool = True) -> NoReturn:
    """Refused: torch's profiler takes no requests from outside the process."""
    raise NotImplementedError("There is no profiler server; take profiles by jax.profiler.trace in the program itself.")


def stop_server() -> NoReturn:
    """Raise `ValueError`: no server is running."""
    raise ValueError("No active profiler server.")


def register_subprocess(pid: int, port: int) -> NoReturn:
    """Refused: without servers, a profile is of one process."""
    raise NotImplementedError("A profile is of one process; take profiles by jax.profiler.trace in each of them.")
