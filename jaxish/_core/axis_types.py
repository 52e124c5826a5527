"""How values differ along the axes of a mesh within `shard_map`, as their types tell (`jax.typeof(x).mat`)."""

from typing import Any


class ManualAxisType:
    """Along which mesh axes a value varies, is yet to be summed (`unreduced`), or was summed (`reduced`).

    Equal descriptions are one object. Raises `ValueError` for axes along which a value varies and is one of the others.
    """

    __slots__ = ("reduced", "unreduced", "varying")

    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __new__(
        cls,
        *,
        varying: frozenset[Any] = frozenset(),
        unreduced: frozenset[Any] = frozenset(),
        reduced: frozenset[Any] = frozenset(),
    ) -> "ManualAxisType":
        for name, others in (("unreduced", unreduced), ("reduced", reduced)):
            if varying & others:
                raise ValueError(
                    f"varying and {name} cannot have common mesh axes. Got varying={varying} and {name}={others}"
                )
        key = frozenset(varying), frozenset(unreduced), frozenset(reduced)
        found = _known.get(key)
        if found is None:
            found = object.__new__(cls)
            for name, value in zip(("varying", "unreduced", "reduced"), key, strict=True):
                object.__setattr__(found, name, value)
        return _known.setdefault(key, found)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ManualAxisType is immutable: {name} cannot be set; use update")

    def update(self, **kwargs: Any) -> "ManualAxisType":
        """Return the description with some of its parts changed."""
        return ManualAxisType(**{name: getattr(self, name) for name in self.__slots__} | kwargs)

    def to_ct_mat(self) -> "ManualAxisType":
        """Return the description of cotangents."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    @property
    def empty(self) -> bool:
        """Whether the value is the same along all axes."""
        return not (self.varying or self.unreduced or self.reduced)

    def invarying(self, mesh: Any) -> frozenset[Any]:
        """Return the axes that a program goes through on a mesh along which the value is the same."""
        return frozenset(mesh.manual_axes) - (self.varying | self.unreduced | self.reduced)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        return f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, reduced={self.reduced})"


_known: dict[Any, ManualAxisType] = {}
