"""Effects that depend on how arrays lie over devices, which a graph does not say.

They are settled when a jitted function has been traced: by the shardings of its arguments and the constraints in it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

from torch import Tensor

from .._core import graph
from .._core.array import Array
from .._core.graph import Graph
from .._core.primitive import Dims
from .._devices import devices
from .._devices.constraint import sharding_given
from .._devices.meshes import mesh_in_force
from .._devices.propagation import shardings_within
from .._devices.shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from .callbacks import Effect, refuse_ordered

Lanes = Sequence[tuple[int, Dims]]


class ShardedEffect(Effect):
    """An effect on inputs that lie over devices like `shardings`: None for one that is whole, or before it is settled."""

    what = ""  # cannot be done where shardings are not known

    def __init__(
        self, name: str, function: Callable[..., Any], lanes: Lanes = (), ordered: bool = False,
        shardings: Sequence[Sharding | None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, function, lanes, ordered)
        self.shardings = shardings

    def _with_lanes(self, lanes: Lanes) -> Self:
        return type(self)(self.name, self.function, lanes, self.ordered, self.shardings)

    def run(self, *inputs: Tensor) -> list[Tensor]:
        if self.shardings is None:
            raise NotImplementedError(
                f"{self.what} is not supported in loops and branches of a jitted function: what they are given tells of "
                "no sharding. Do it outside of them."
            )
        return super().run(*inputs)

    def settled(self, shardings: Sequence[Sharding | None]) -> "ShardedEffect | None":
        """Return what is left to be done in each call, where the inputs have these shardings."""
        raise NotImplementedError


class InspectSharding(ShardedEffect):
    """Tells a callback of the sharding of its input, once."""

    what = "inspect_array_sharding"

    def settled(self, shardings: Sequence[Sharding | None]) -> None:
        self.function(shardings[0] or SingleDeviceSharding(devices.devices()[0]))


class PartitionedEffect(ShardedEffect):
    """A debug callback that is called for each device, with its parts of the inputs."""

    what = "a debug callback with partitioned=True"

    def settled(self, shardings: Sequence[Sharding | None]) -> ShardedEffect:
        return PartitionedEffect(self.name, self.function, self.lanes, self.ordered, tuple(shardings))

    def _called(self, *inputs: Tensor) -> None:
        given = [self._of_a_lane(s, i) for i, s in enumerate(self.shardings or ())]
        parts = [s and s.devices_indices_map(t.shape) for s, t in zip(given, inputs, strict=True)]
        for device in _devices_of(given):
            self.function(*(t[p[device]] if p else t for t, p in zip(inputs, parts, strict=True)))

    def _of_a_lane(self, sharding: Sharding | None, index: int) -> NamedSharding | None:
        """Return the sharding of one lane of an input, which is whole where the batch was split."""
        if not isinstance(sharding, NamedSharding):
            return None
        parts = list(sharding.spec)
        for _, dims in reversed(self.lanes):
            dim = dims[index]
            if dim is not None and dim < len(parts):
                del parts[dim]
        return sharding.update(spec=PartitionSpec(*parts))


def _devices_of(shardings: Sequence[NamedSharding | None]) -> list[Any]:
    """Return the devices that a computation of such inputs runs on; any one, where nothing is said of several."""
    mesh = next((s.mesh for s in shardings if s is not None), None) or mesh_in_force()
    return [None] if mesh is None else list(mesh.devices.flat)  # pyright: ignore


def depends_on_shardings(body: Graph) -> bool:
    """Tell whether what a graph does depends on how its inputs lie over devices."""
    return any(isinstance(node.target, ShardedEffect) for node in body.module.graph.nodes)


def _waits(target: Any) -> bool:
    return isinstance(target, ShardedEffect) and target.shardings is None


def settle(body: Graph, captured: int, arrays: Sequence[Array]) -> None:
    """Settle the effects in a graph just traced, whose inputs behind those that it captured stand for these arrays.

    Raises `ValueError` for ordered effects of arrays over several devices.
    """
    if not graph.has_effects(body):
        return
    shardings = [*map(sharding_given, arrays)]
    refuse_ordered(body.module.graph.nodes, max((s.num_devices for s in shardings if s is not None), default=1))
    known = shardings_within(body, [*[None] * captured, *shardings])
    for node in list(body.module.graph.nodes):
        if _waits(node.target):
            left = node.target.settled([known.get(argument) for argument in node.args])
            if left is None:
                body.module.graph.erase_node(node)
            else:
                node.target = left
    body.module.recompile()
    body.cache.pop("has effects")
