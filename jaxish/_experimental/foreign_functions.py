"""jax.ffi: handlers that XLA's runtime calls with frames of its own. There is no such runtime here, so that calls of them are refused.

Libraries register theirs when they are imported, of which a program may use something else: that is taken note of.
`pycapsule` works: it knows nothing of XLA.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

_INSTEAD = (
    "Make the C++ function an operator of torch (torch.library.custom_op, or TORCH_LIBRARY) and call it by "
    "jaxish.interop.from_torch_function, or call it from Python by jax.pure_callback."
)


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} is not supported: XLA's runtime calls such handlers, and torch runs here. {_INSTEAD}"
    )


_registered: dict[str, list[str]] = {}  # targets, and the platforms that they are for


def ffi_call(
    target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
    input_output_aliases: dict[int, int] | None = None, custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> NoReturn:  # fmt: skip
    """Refused: there is no XLA that would call the target."""
    platforms = _registered.get(target_name)
    known = f"registered for {' and '.join(platforms)}" if platforms else "not registered"
    _refuse(f"ffi_call({target_name!r}), a target {known},")


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Take note of a target. Calls of it are refused (`ffi_call`): there is no XLA that would make them."""
    _registered.setdefault(name, []).append(platform)


def register_ffi_target_as_batch_partitionable(name: str) -> NoReturn:
    """Refused: there are no targets."""
    _refuse(f"register_ffi_target_as_batch_partitionable({name!r})")


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> NoReturn:
    """Refused: types are those of targets' arguments."""
    _refuse(f"register_ffi_type({name!r})")


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> NoReturn:
    """Raise `ValueError`, as JAX does by now."""
    raise ValueError(f"register_ffi_type_id({name!r}) is not supported after jaxlib version 381.")


def ffi_lowering(
    call_target_name: str, *, operand_layouts: Sequence[Any] | None = None, result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None, skip_ffi_layout_processing: bool = False, **lowering_args: Any,
) -> NoReturn:  # fmt: skip
    """Refused: rules for MLIR, which there is none of here."""
    _refuse(f"ffi_lowering({call_target_name!r})")


def build_ffi_lowering_function(
    call_target_name: str, *, operand_layouts: Sequence[Any] | None = None, result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None, skip_ffi_layout_processing: bool = False, **lowering_args: Any,
) -> NoReturn:  # fmt: skip
    """Refused: rules for MLIR, which there is none of here."""
    _refuse(f"build_ffi_lowering_function({call_target_name!r})")


def include_dir() -> NoReturn:
    """Refused: the headers are XLA's."""
    _refuse("include_dir()")


def pycapsule(funcptr: Any) -> Any:
    """Return a PyCapsule without a name that holds a function of a library that `ctypes` has loaded."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(ctypes.cast(funcptr, ctypes.c_void_p), None, None)
