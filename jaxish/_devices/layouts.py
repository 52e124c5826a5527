"""How an array's elements lie in the memory of a device, as programs say it: torch's arrays lie as torch lays them."""

from collections.abc import Sequence
from typing import Any, Final

from .._core import avals
from . import meshes
from .shardings import NamedSharding, PartitionSpec, Sharding


class _Auto:
    """The layout that a compiler chooses: here row by row, always."""

    def __repr__(self) -> str:
        return "AUTO"


class Layout:
    """The order of dimensions in memory, outermost first, and tiles. `Layout.AUTO` leaves it to the compiler."""

    __slots__ = ("major_to_minor", "sub_byte_element_size_in_bits", "tiling")

    AUTO: Final = _Auto()

    def __init__(
        self,
        major_to_minor: Sequence[int],
        tiling: Sequence[Sequence[int]] | None = None,
        sub_byte_element_size_in_bits: int = 0,
    ) -> None:
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def update(self, **changes: Any) -> "Layout":
        """Return the layout with some of its attributes changed."""
        return Layout(**{**dict(zip(_ATTRIBUTES, self._key(), strict=True)), **changes})

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """Raise `ValueError` where arrays of this shape have another number of dimensions."""
        if len(self.major_to_minor) != len(shape):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={tuple(shape)}"
            )

    @property
    def is_in_order(self) -> bool:
        """Whether elements lie row by row."""
        return self.major_to_minor == tuple(range(len(self.major_to_minor)))

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _ATTRIBUTES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{name}={getattr(self, name)}' for name in _ATTRIBUTES)})"


_ATTRIBUTES = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")


class Format:
    """A layout (None: that of the device) and a sharding (None: that of the array).

    Raises `TypeError` for what is neither, `ValueError` for a layout that is said without a sharding.
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Layout | _Auto | None = None, sharding: Sharding | None = None) -> None:
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
        self.layout, self.sharding = layout, sharding

    @staticmethod
    def in_order(ndim: int, sharding: Sharding) -> "Format":
        """Return the format of an array that lies row by row."""
        return Format(Layout(range(ndim), ()), sharding)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


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
