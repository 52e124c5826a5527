"""jax.experimental.array_serialization: where and by whom arrays are written to disk.

Specifications are those of TensorStore. JAX's own writers are built on its runtime, and refused.
"""

import abc
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .._core.array import Array

_BUCKETS = {"gs": "gcs", "s3": "s3"}


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    *,
    ocdbt: bool = False,
    process_idx: int | None = None,
    arr: Array | None = None,
    driver: str = "zarr",
) -> dict[str, Any]:
    """Return TensorStore's specification of an array at a path or in a bucket, with `arr` of its shape and chunks, too.

    With `ocdbt` the array is a key of the database in the folder. `process_idx` makes a folder for a process. Raises
    `ValueError` for a bucket without a path, and for a database at a relative path.
    """
    whole = os.fspath(ckpt_path)
    scheme, _, rest = whole.rpartition("://")
    folder, name = os.path.split(re.sub("(?<=.)/+", "/", rest).rstrip("/"))
    if process_idx is not None:
        folder = os.path.join(folder, f"process_{process_idx}")
    if ocdbt:
        if scheme and "/" not in folder:
            raise ValueError(
                f"Using OCDBT requires the bucket name, the directory name and the array name, your path is: {whole}"
            )
        if not scheme and not folder.startswith("/"):
            raise ValueError(f"Checkpoint path should be absolute. Got {folder}")
        store = {"driver": "ocdbt", "base": _store(scheme, folder), "path": name}
    else:
        store = _store(scheme, os.path.join(folder, name))
    found: dict[str, Any] = {"driver": driver, "kvstore": store}
    if arr is not None:
        found["metadata"] = _metadata(arr, driver)
    return found


def _store(scheme: str, path: str) -> dict[str, Any]:
    if scheme not in _BUCKETS:
        return {"driver": "file", "path": path}
    bucket, _, inner = path.partition("/")
    if not bucket or not inner:
        raise ValueError(
            "The ckpt_path should contain the bucket name and the file path inside the bucket. Got: "
            f"{scheme}://{path.strip('/')}"
        )
    return {"driver": _BUCKETS[scheme], "bucket": bucket, "path": inner}


def _metadata(array: Array, driver: str) -> dict[str, Any]:
    chunks = list(array.sharding.shard_shape(array.shape))
    if driver == "zarr3":
        grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
        return {"codecs": [], "shape": array.shape, "data_type": array.dtype.name, "chunk_grid": grid}
    return {"compressor": {"id": "zstd"}, "shape": array.shape, "chunks": chunks}


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Tell whether a specification, or an address, is of a bucket."""
    if isinstance(tspec, str):
        return tspec.partition("://")[0] in _BUCKETS and "://" in tspec
    return tspec.get("driver") in _BUCKETS.values() or any(
        is_remote_storage(tspec[inner]) for inner in ("base", "kvstore") if inner in tspec
    )


class GlobalAsyncCheckpointManagerBase(metaclass=abc.ABCMeta):
    """What a writer of checkpoints offers, as libraries name it in annotations."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong in writing."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Return when all is written."""

    @abc.abstractmethod
    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], None]) -> None:
        """Write arrays, and call back when they are there."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Sequence[int]] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> Any:
        """Read arrays."""


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} is not supported: it belongs to JAX's runtime. Write checkpoints with orbax.checkpoint, whose writers run "
        "here, or with numpy.savez."
    )


def run_serialization(arrays: Any, tensorstore_specs: Any) -> NoReturn:
    """Refused: see the module's docstring."""
    _refuse("run_serialization")


def run_deserialization(
    shardings: Sequence[Any],
    tensorstore_specs: Sequence[Any],
    global_shapes: Sequence[Sequence[int]] | None = None,
    dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = 32,
) -> NoReturn:
    """Refused: see the module's docstring."""
    _refuse("run_deserialization")


class GlobalAsyncCheckpointManager:
    """Refused: see the module's docstring."""

    def __init__(self, timeout_secs: int = 300) -> None:
        _refuse("GlobalAsyncCheckpointManager")
