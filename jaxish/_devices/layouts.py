"""How an array's elements lie in the memory of a device, as programs say it: torch's arrays lie as torch lays them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .._core import avals
from . import meshes
from .shardings import NamedSharding, PartitionSpec, Sharding


class _Auto:
    """The layout that a compiler chooses: here row by row, always."""

    def __repr__(self) -> str:
        return "AUTO"


@dataclass(frozen=True)
class Layout:
    """The order of dimensions in memory, outermost first, and tiles. `Layout.AUTO` leaves it to the compiler."""

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    AUTO: ClassVar[_Auto] = _Auto()

    def __post_init__(self) -> None:
        object.__setattr__(self, "major_to_minor", tuple(self.major_to_minor))
        object.__setattr__(self, "tiling", None if self.tiling is None else tuple(map(tuple, self.tiling)))

    def update(self, **changes: Any) -> "Layout":
        """Return the layout with some of its attributes changed."""
        return replace(self, **changes)

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise `ValueError` where arrays of this shape have another number of dimensions."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={tuple(aval_shape)}"
            )

    @property
    def is_in_order(self) -> bool:
        """Whether elements lie row by row."""
        return self.major_to_minor == tuple(range(len(self.major_to_minor)))


@dataclass(frozen=True)
class Format:
    """A layout (None: that of the device) and a sharding (None: that of the array).

    Raises `TypeError` for what is neither, `ValueError` for a layout that is said without a sharding.
    """

    layout: Layout | _Auto | None = None
    sharding: Sharding | None = None

    def __post_init__(self) -> None:
        layout, sharding = self.layout, self.sharding
        if not isinstance(layout, Layout | _Auto | None):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are `None`, `Layout.AUTO` or an instance "
                f"of `Layout`. Got {layout} of type {type(layout)}"
            )
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}. Please pass a "
                "`jax.sharding.NamedSharding` or `jax.sharding.SingleDeviceSharding` to the sharding argument. Got "
                f"sharding {sharding}"
            )
        if not isinstance(sharding, Sharding | None):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are `None` or an instance of "
                f"`jax.Sharding`. Got {sharding} of type {type(sharding)}"
            )

    @staticmethod
    def in_order(ndim: int, sharding: Sharding) -> "Format":
        """Return the format of an array that lies row by row."""
        return Format(Layout(tuple(range(ndim)), ()), sharding)


def _of_struct(given: Any, shape: tuple[Any, ...]) -> Sharding | None:
    if isinstance(given, Format):
        given = given.sharding
    elif isinstance(given, PartitionSpec):
        mesh = meshes.mesh_set()
        if mesh is None:
            raise TypeError(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be empty. Please use "
                "`jax.set_mesh` to set the mesh context."
            )
        given = NamedSharding(mesh, given)
    if not isinstance(given, Sharding | None):
        raise ValueError(
            "sharding should be an instance of `jax.sharding.Sharding`, `jax.sharding.PartitionSpec` or "
            f"`jax.experimental.layout.Format`. Got {given} of type {type(given)}."
        )
    if given is not None:
        given.check_compatible_aval(shape)
    return given


avals.sharding_for_struct = _of_struct


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """Raise `NotImplementedError`: torch's compilers choose the layouts of what they compute."""
    raise NotImplementedError(
        "with_layout_constraint is not supported: torch's compilers choose layouts; transpose the array where its "
        "elements' order in memory matters."
    )
