"""`Exported`: a function as data, with the types of its arguments and results, and calls of it.

A call is that of a `custom_vjp` function, as in JAX: reverse mode goes by `vjp`, an exported function of its own, and
forward mode is refused.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from .._core import dtypes, tree
from .._core.array import default_torch_device, tensor_of
from .._core.avals import ShapedArray
from .._core.tree import PyTreeDef
from .._devices import devices
from .._transforms.custom_vjp import custom_vjp
from .._transforms.flat import as_argument, float0_zeros, kind_of_type
from .._transforms.program import Program
from .arguments import check_structure, check_types, places
from .checks import DisabledSafetyCheck
from .functions import StoredFunction
from .layouts import Layouts, over
from .solutions import Equations
from .storing import serialized


@dataclass(frozen=True, eq=False, repr=False)
class Exported:
    """An exported function: `export` and `deserialize` make it, `call` calls it.

    Attributes:
        fun_name: the function's name, for messages.
        in_tree: the structure of (args, kwargs).
        in_avals: the types of the arguments' leaves; sizes may be symbolic.
        out_tree: the structure of the result.
        out_avals: the types of the result's leaves.
        in_shardings_hlo, out_shardings_hlo: None for each leaf, as in JAX since 2026.
        nr_devices: for how many devices it was exported.
        platforms: where it may run: `cpu`, `cuda`, `rocm`, `tpu`.
        ordered_effects, unordered_effects: always none, since effects call the host.
        disabled_safety_checks: the checks that are left out.
        calling_convention_version: JAX's number; it has no effect here.
        module_kept_var_idx: the indices of the leaves that the function reads.
        uses_global_constants: whether it is for symbolic sizes or several platforms.
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_tree: PyTreeDef
    out_avals: tuple[ShapedArray, ...]
    platforms: tuple[str, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _function: StoredFunction
    _get_vjp: Callable[["Exported"], "Exported"] | None
    _layouts: Layouts
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()

    @property
    def nr_devices(self) -> int:
        """For how many devices it was exported: where more than one, calls must be for as many."""
        return self._layouts.nr_devices

    @property
    def in_shardings_hlo(self) -> tuple[None, ...]:
        """How the arguments lie over devices: not specified."""
        return (None,) * len(self.in_avals)

    @property
    def out_shardings_hlo(self) -> tuple[None, ...]:
        """How the results lie over devices: not specified."""
        return (None,) * len(self.out_avals)

    def in_shardings_jax(self, mesh: Any) -> Sequence[Any]:
        """Return how each leaf of the arguments lies over a mesh like that of the export; None where nothing was said.

        Raises `ValueError` for a mesh with other names, sizes or types of axes.
        """
        return tuple(over(layout, mesh) for layout in self._layouts.inputs)

    def out_shardings_jax(self, mesh: Any) -> Sequence[Any]:
        """Return how each leaf of the result lies over a mesh: see `in_shardings_jax`."""
        return tuple(over(layout, mesh) for layout in self._layouts.outputs)

    @property
    def mlir_module_serialized(self) -> bytes:
        """JAX's StableHLO, which there is none of here: raises `NotImplementedError`."""
        _refuse_mlir()

    def mlir_module(self, serialized: bool = True) -> Any:
        """Raise `NotImplementedError`: there is no StableHLO here, `serialized` or not."""
        _refuse_mlir()

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    __repr__ = __str__

    # -- derivatives -----------------------------------------------------------------------------------------------

    def has_vjp(self) -> bool:
        """Tell whether reverse mode is known."""
        return self._get_vjp is not None

    def vjp(self) -> "Exported":
        """Return the exported function of the arguments' leaves and a cotangent per result, to cotangents of the former.

        Raises `ValueError` where the function was stored without it.
        """
        if self._get_vjp is None:
            raise ValueError("No VJP is available: serialize the function with a higher vjp_order.")
        return self._known_vjp

    @functools.cached_property
    def _known_vjp(self) -> "Exported":
        assert self._get_vjp is not None
        return self._get_vjp(self)

    # -- storing ---------------------------------------------------------------------------------------------------

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Return the function as bytes, for `deserialize`, with as many levels of its derivative in reverse mode.

        Raises `ValueError` where these are not known, and for pytrees of classes that are not registered.
        """
        return serialized(self, vjp_order)

    # -- calling ---------------------------------------------------------------------------------------------------

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result for arguments of the types that the function was exported for.

        Results lie over the devices of the arguments, or of the mesh in force. Raises `ValueError` for other pytrees, types
        and sizes, another number of devices, and on a platform that it was not exported for.
        """
        leaves, spec = tree.flatten((args, kwargs))
        check_structure(self.fun_name, self.in_tree, PyTreeDef(spec))
        where = self._layouts.devices_of_call(self.fun_name, leaves)
        return self.out_tree.unflatten(self._layouts.placed(self._flat(*leaves), where))

    @functools.cached_property
    def _flat(self) -> Callable[..., list[Any]]:
        def computed(*leaves: Any) -> list[Any]:
            return self._computed(*leaves)

        computed.__name__ = self.fun_name
        flat = custom_vjp(computed)
        flat.defvjp(lambda *leaves: (computed(*leaves), leaves), self._pulled_back)
        return flat

    def _pulled_back(self, leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        pullback = self.vjp()
        types = pullback.in_avals[len(leaves) :]
        given = [
            float0_zeros(np.shape(c)) if t.dtype == dtypes.float0 else c for c, t in zip(cotangents, types, strict=True)
        ]
        return tuple(pullback._flat(*leaves, *given))

    def _computed(self, *leaves: Any) -> list[Any]:
        arrays = [as_argument(leaf, f"The exported function {self.fun_name}") for leaf in leaves]
        values = check_types(self.equations, arrays)
        device = arrays[0]._tensor.device if arrays else default_torch_device()
        self._check_platform(device)
        closed = self._function.closed(values, device)
        program = Program(closed, self._leaves_spec, self._out_kinds, self.in_avals, self.fun_name)
        return program([tensor_of(a) for a in arrays])

    @functools.cached_property
    def equations(self) -> Equations:
        """What the arguments' shapes say of the dimension variables."""
        return Equations(self.in_avals, places(self.in_tree))

    @functools.cached_property
    def _leaves_spec(self) -> tree.Spec:
        return tree.flatten([0] * len(self.out_avals))[1]

    @functools.cached_property
    def _out_kinds(self) -> tuple[Any, ...]:
        return tuple(map(kind_of_type, self.out_avals))

    def _check_platform(self, device: torch.device) -> None:
        platform = platform_named(devices.platform_of(device))
        if platform not in self.platforms and DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
            raise ValueError(
                f"Function '{self.fun_name}' was exported for platforms '{self.platforms}' but it is used on '{(platform,)}'."
            )


def _refuse_mlir() -> NoReturn:
    raise NotImplementedError(
        "an exported function holds torch's operators, not StableHLO; `serialize` and `deserialize` store it, and "
        "`jax.jit(f).lower(...).as_text()` shows it."
    )


def platform_named(platform: str) -> str:
    """Return the name that exported functions have for a platform of `jax.devices`."""
    if platform == "gpu":
        return "rocm" if torch.version.hip else "cuda"
    return "tpu" if platform == "xla" else platform


def default_export_platform() -> str:
    """Return the platform that functions are exported for by default: `cpu`, `cuda`, `rocm` or `tpu`."""
    return platform_named(devices.default_backend())
