"""pallas_call: a kernel called for each step of a grid, on references to blocks of the arrays, as JAX's interpreter has it.

The arrays are padded to whole blocks and carried from step to step. A step cuts its blocks out, runs the kernel on
references that hold them (`jax.ref`), and puts back what the references hold then.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core import refs, tree
from ..._core.array import Array, as_array
from ..._devices.devices import default_backend
from ..._lax.control_flow.while_loop import fori_loop
from ..._lax.dynamic_slices import dynamic_slice, dynamic_update_slice
from ..._lax.shapes import pad
from .specifications import BlockSpec, Element, GridSpec, NoBlockSpec, Squeezed, no_block_spec, uninitialized


class _Active(threading.local):
    ids: tuple[Any, ...] | None = None
    grid: tuple[Any, ...] = ()


_active = _Active()


def program_id(axis: int) -> Array:
    """Return at which step of the grid a kernel is, along one of its dimensions. Raises `ValueError` outside of kernels."""
    if _active.ids is None:
        raise ValueError("Axis environment not available: program_id was called outside of a kernel.")
    return _active.ids[axis]


def num_programs(axis: int) -> Any:
    """Return how many steps the grid has along one of its dimensions. Raises `ValueError` outside of kernels."""
    if _active.ids is None:
        raise ValueError("Axis environment not available: num_programs was called outside of a kernel.")
    return _active.grid[axis]


@contextmanager
def _at(ids: tuple[Any, ...], grid: tuple[Any, ...]) -> Iterator[None]:
    before = _active.ids, _active.grid
    _active.ids, _active.grid = ids, grid
    try:
        yield
    finally:
        _active.ids, _active.grid = before


def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    metadata: dict[str, str] | None = None,
) -> Callable[..., Any]:
    """Return a function of arrays that calls a kernel for each step of a grid, and returns what it has written.

    `interpret=True` is what there is: `name`, `compiler_params`, `cost_estimate` and `metadata` are for compilers. Raises
    `ValueError` for other calls on a CPU, as JAX does, `NotImplementedError` on a GPU, and where JAX would print the kernel.
    """
    if debug:
        raise NotImplementedError("pallas_call(debug=True) is not supported. Print from the kernel by pl.debug_print.")
    if grid_spec is not None and (grid or not all(isinstance(s, NoBlockSpec) for s in (in_specs, out_specs))):
        raise ValueError("If `grid_spec` is specified, then `grid`, `in_specs` and `out_specs` must not be.")
    spec = grid_spec or GridSpec(grid, in_specs, out_specs, scratch_shapes)
    several = isinstance(out_shape, tuple | list)
    steps = tuple(spec.grid) if isinstance(spec.grid, tuple | list) else (spec.grid,)

    @functools.wraps(kernel)
    def call(*args: Any) -> Any:
        _check_interpreted(interpret)
        ahead, ahead_tree = tree.flatten(args[: spec.num_scalar_prefetch])
        given, in_tree = tree.flatten(args[spec.num_scalar_prefetch :])
        shapes, out_tree = tree.flatten(tuple(out_shape) if several else out_shape)
        scalars, inputs = [as_array(a) for a in ahead], [as_array(a) for a in given]
        outputs = [uninitialized(s.shape, s.dtype) for s in shapes]
        for source, target in input_output_aliases.items():
            outputs[target] = [*scalars, *inputs][source]
        is_spec = lambda x: x is None or isinstance(x, BlockSpec | NoBlockSpec)  # noqa: E731
        specs = _specs(spec.in_specs, in_tree, is_spec) + _specs(spec.out_specs, out_tree, is_spec)
        blocks = [_Blocks.of(s, array) for s, array in zip(specs, [*inputs, *outputs], strict=True)]
        scratch, scratch_tree = tree.flatten(spec.scratch_shapes)

        def run(first: tuple[Any, ...], *references: Any) -> None:
            ins, outs = references[: len(inputs)], references[len(inputs) : len(blocks)]
            results = out_tree.unflatten(outs)
            work = scratch_tree.unflatten(references[len(blocks) :])
            positional, named = ((), work) if isinstance(work, dict) else (work, {})
            _run(kernel, (*first, *in_tree.unflatten(ins), *(results if several else [results]), *positional), named)

        work = [uninitialized(s.inner_aval.shape, s.inner_aval.dtype) for s in scratch]
        referred = lambda: ahead_tree.unflatten(map(refs.new_ref, scalars))  # noqa: E731
        made = _stepped(run, steps, blocks, [*map(_Blocks.padded, blocks, [*inputs, *outputs]), *work], referred)
        return out_tree.unflatten(map(_Blocks.cut, blocks[len(inputs) :], made[len(inputs) : len(blocks)]))

    return call


def _check_interpreted(interpret: Any) -> None:
    if interpret is True:
        return
    if not interpret and default_backend() == "cpu":
        raise ValueError("Only interpret mode is supported on CPU backend.")
    raise NotImplementedError(
        "pallas_call is not compiled here, but interpreted. Give it interpret=True; what should be one kernel on a GPU can be "
        "written in Triton and called by jaxish.interop, or left to jax.jit."
    )


def _specs(specs: Any, structure: tree.Spec, is_spec: Callable[[Any], bool]) -> list[Any]:
    specs = tuple(specs) if isinstance(specs, list) else specs
    return tree.broadcast_prefix(specs, structure, is_leaf=is_spec)


def _run(kernel: Callable[..., Any], references: Sequence[Any], named: Mapping[str, Any]) -> None:
    result = kernel(*references, **named)
    if result is not None:
        raise ValueError(f"The kernel function in a pallas_call should return None. It returns {result!r}.")


def _stepped(
    run: Callable[..., None],
    grid: tuple[Any, ...],
    blocks: "Sequence[_Blocks]",
    arrays: list[Array],
    referred: Callable[[], tuple[Any, ...]],
) -> list[Array]:
    """Return the arrays after `run` has been called at each step of the grid, the last dimension first.

    What `referred` makes, references to what is known before blocks are cut, goes to `run` and to the maps of indices.
    """

    def step(number: Any, arrays: list[Array]) -> list[Array]:
        ids = _unraveled(number, grid)
        with _at(ids, grid):
            scalars = referred()
            places = [b.start((*ids, *scalars)) for b in blocks]
            held = [b.block(a, place) for b, a, place in zip(blocks, arrays, places, strict=False)]
            held += arrays[len(blocks) :]
            cells = [refs.new_ref(value) for value in held]
            run(scalars, *cells)
            now = [cell[...] for cell in cells]
        written = [b.put(a, place, value) for b, a, place, value in zip(blocks, arrays, places, now, strict=False)]
        return written + now[len(blocks) :]

    if not grid:
        return step(0, arrays)
    return fori_loop(0, functools.reduce(lambda a, b: a * b, grid), step, arrays)


def _unraveled(number: Any, grid: tuple[Any, ...]) -> tuple[Any, ...]:
    ids: list[Any] = []
    for size in reversed(grid):
        ids.append(as_array(number % size).astype(np.int32))
        number = number // size
    return tuple(reversed(ids))


@dataclass
class _Blocks:
    """How an array is cut into blocks."""

    shape: tuple[int, ...]
    dims: tuple[Any, ...]
    index_map: Callable[..., Any] | None

    @staticmethod
    def of(spec: Any, array: Array) -> "_Blocks":
        spec = spec if isinstance(spec, BlockSpec) else BlockSpec()
        return _Blocks(array.shape, spec.dims(array.shape), spec.index_map)

    @property
    def sizes(self) -> list[int]:
        return [1 if isinstance(d, Squeezed) else d.block_size for d in self.dims]

    def padded(self, array: Array) -> Array:
        """Return the array with what is read beyond its end: as much as makes whole blocks, or what a block asks for."""
        amounts = [
            (*dim.padding, 0) if isinstance(dim, Element) else (0, -size % block, 0)
            for dim, size, block in zip(self.dims, self.shape, self.sizes, strict=True)
        ]
        return pad(array, uninitialized((), array.dtype), amounts) if any(map(any, amounts)) else array

    def cut(self, array: Array) -> Array:
        """Return the array without its padding."""
        before = [d.padding[0] if isinstance(d, Element) else 0 for d in self.dims]
        return array[tuple(slice(b, b + size) for b, size in zip(before, self.shape, strict=True))]

    def start(self, step: tuple[Any, ...]) -> list[Any]:
        """Return where the block of a step begins, of which the map is told. Raises `ValueError` where the map has not an index for each dimension."""
        if self.index_map is None:
            return [0] * len(self.dims)
        index = self.index_map(*step)
        index = tuple(index) if isinstance(index, tuple | list) else (index,)
        if len(index) != len(self.dims):
            raise ValueError(
                f"Index map must return {len(self.dims)} values to match block_shape={self.dims}. "
                f"Currently returning {len(index)} values."
            )
        return [
            i if isinstance(dim, Element | Squeezed) else i * size
            for i, dim, size in zip(index, self.dims, self.sizes, strict=True)
        ]

    def block(self, array: Array, start: list[Any]) -> Array:
        """Return the block that begins there, as a kernel sees it."""
        found = dynamic_slice(array, start, self.sizes) if start else array
        kept = [s for s, d in zip(self.sizes, self.dims, strict=True) if not isinstance(d, Squeezed)]
        return found.reshape(kept)

    def put(self, array: Array, start: list[Any], block: Array) -> Array:
        """Return the array with another block there."""
        return dynamic_update_slice(array, block.reshape(self.sizes), start) if start else block
