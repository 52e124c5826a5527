"""gather and scatter with drawn dimension numbers: values, derivatives, batching."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from oracle import agree

import jaxish

pytestmark = pytest.mark.usefixtures("unoptimized_jax")


def draw(seed: int) -> tuple[Any, ...]:
    """Return an operand, indices, updates, slice sizes and dimension numbers that fit each other."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    rank = choose.randint(1, 4)
    shape = [choose.randint(1, 4) for _ in range(rank)]
    batching = sorted(choose.sample(range(rank), choose.choice([0, 0, 0, 1]) if rank > 1 else 0))
    rest = [d for d in range(rank) if d not in batching]
    index_map = choose.sample(rest, choose.randint(1, len(rest)))
    sizes = [1 if d in batching else choose.randint(1, n) for d, n in enumerate(shape)]
    collapsed = [d for d in rest if sizes[d] == 1 and choose.random() < 0.6]
    lead = [choose.randint(1, 3) for _ in range(choose.randint(0, 2))]
    indices_batching = []
    for d in batching:
        place = choose.randint(0, len(lead))
        lead.insert(place, shape[d])
        indices_batching = [p + (p >= place) for p in indices_batching] + [place]
    indices = numbers.integers(-1, 5, [*lead, len(index_map)]).astype("int32")
    held = [d for d in range(rank) if d not in collapsed and d not in batching]
    offsets = sorted(choose.sample(range(len(lead) + len(held)), len(held)))
    windows, batch = iter(held), iter(lead)
    update_shape = [sizes[next(windows)] if p in offsets else next(batch) for p in range(len(lead) + len(held))]
    operand = numbers.integers(0, 9, shape)
    updates = numbers.integers(0, 9, update_shape)
    dims = tuple(map(tuple, (offsets, collapsed, index_map, batching, indices_batching)))
    return operand, indices, updates, sizes, dims


@pytest.mark.parametrize("seed", range(25))
def test_gather_in_every_mode(seed: int) -> None:
    operand, indices, _, sizes, dims = draw(seed)
    dtype = ("float32", "int32", "uint32", "bool", "bfloat16")[seed % 5]

    def program(jax: Any) -> Any:
        x, i = jax.numpy.asarray(operand.astype("float32")).astype(dtype), jax.numpy.asarray(indices)
        numbers = jax.lax.GatherDimensionNumbers(*dims)
        modes = (None, "fill", "clip", jax.lax.GatherScatterMode.CLIP)
        return [jax.lax.gather(x, i, numbers, sizes, mode=m) for m in modes]

    agree(program)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", ["scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter_sub"])
def test_scatters(seed: int, name: str) -> None:
    operand, indices, updates, _, dims = draw(seed)
    dtype = ("float32", "int32", "uint32", "int8", "float16")[seed % 5]

    def program(jax: Any) -> Any:
        x, u = (jax.numpy.asarray(t.astype(dtype)) for t in (operand, updates))
        numbers = jax.lax.ScatterDimensionNumbers(*dims)
        return getattr(jax.lax, name)(x, jax.numpy.asarray(indices), u, numbers, mode=("clip", None)[seed % 2])

    agree(program)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("name", ["scatter_add", "scatter_max"])
def test_derivatives_and_batches(seed: int, name: str) -> None:
    operand, indices, updates, sizes, dims = draw(seed)

    def program(jax: Any, *args: Any) -> Any:
        x, u, i = map(jax.numpy.asarray, args)

        def total(x: Any, u: Any, i: Any) -> Any:
            read = jax.lax.gather(x, i, jax.lax.GatherDimensionNumbers(*dims), sizes, mode="fill", fill_value=0)
            written = getattr(jax.lax, name)(x, i, u, jax.lax.ScatterDimensionNumbers(*dims))
            return (read**2).sum() + (written**3).sum()

        slopes = jax.grad(total, (0, 1))
        pair = jax.numpy.stack([x, x + 1]), jax.numpy.stack([u, u + 1]), jax.numpy.stack([i, i])
        return slopes(x, u, i), jax.vmap(total)(*pair), jax.vmap(slopes)(*pair), jax.jit(slopes)(x, u, i)

    args = operand.astype("float32"), updates.astype("float32"), np.asarray(indices)
    agree(program, *args, rtol=1e-4, at_once=True)


def test_only_the_last_of_repeated_updates_has_a_derivative() -> None:
    def program(jax: Any) -> Any:
        numbers = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
        places = jax.numpy.asarray(np.array([[1], [0], [1], [7]], "int32"))

        def total(x: Any, u: Any) -> Any:
            return (jax.lax.scatter(x, places, u, numbers) ** 2).sum()

        x, u = jax.numpy.asarray(np.ones(3, "float32")), jax.numpy.asarray(np.arange(1, 5).astype("float32"))
        return (
            jax.grad(total, (0, 1))(x, u),
            jax.jit(jax.grad(total, (0, 1)))(x, u),
            jax.grad(jax.jit(total), (0, 1))(x, u),
        )

    agree(program)


CHECKS = [  # the arguments of numbers, the shapes of indices and updates
    ("offset out of range", "gather", ((0, 7), (0,), (0,)), (3, 1), None),
    ("map out of range", "gather", ((1,), (0,), (5,)), (3, 1), None),
    ("map repeats", "gather", ((1,), (0,), (0, 0)), (3, 2), None),
    ("collapsed out of range", "gather", ((1,), (3,), (0,)), (3, 1), None),
    ("collapsed unsorted", "gather", ((), (1, 0), (0,)), (3, 1), None),
    ("batching not disjoint", "gather", ((1,), (0,), (1,), (0,), (0,)), (4, 1), None),
    ("batching counts", "gather", ((1,), (), (1,), (0,), ()), (4, 1), None),
    ("batching sizes", "gather", ((1,), (), (1,), (0,), (0,)), (3, 1), None),
    ("batching the vectors", "gather", ((1,), (), (1,), (0,), (1,)), (4, 1), None),
    ("rank of updates", "scatter", ((1,), (0,), (0,)), (3, 1), (3,)),
    ("window of another size", "scatter", ((1,), (), (0,)), (3, 1), (3, 5)),
    ("inserted out of range", "scatter", ((1,), (2,), (0,)), (3, 1), (3, 5)),
    ("batching of indices repeats", "scatter", ((1,), (), (1,), (0, 0), (0, 0)), (4, 1), (4, 5)),
    ("batching of indices out of range", "scatter", ((1,), (), (1,), (0,), (4,)), (4, 1), (4, 5)),
    ("batching sizes differ", "scatter", ((1,), (), (1,), (0,), (0,)), (3, 1), (3, 5)),
    ("target out of range", "scatter", ((1,), (0,), (9,)), (3, 1), (3, 5)),
]


@pytest.mark.parametrize(
    ("numbers", "shape", "updates", "kind"), [(n, s, u, k) for _, k, n, s, u in CHECKS], ids=[c[0] for c in CHECKS]
)
def test_checks_of_dimension_numbers(numbers, shape, updates, kind):
    def program(j):
        x, indices = j.numpy.zeros((4, 5)), j.numpy.zeros(shape, "int32")
        if kind == "gather":
            return j.lax.gather(x, indices, j.lax.GatherDimensionNumbers(*numbers), (1, 5))
        return j.lax.scatter(x, indices, j.numpy.ones(updates), j.lax.ScatterDimensionNumbers(*numbers))

    agree(program)
    with pytest.raises(TypeError):
        program(jaxish)


def _largest(function, *args):
    """Return how many elements the largest array has that a function computes."""
    nodes = jaxish.jit(function).trace(*args)._program.closed.graph.module.graph.nodes
    return max(n.meta["val"].numel() for n in nodes if isinstance(n.meta.get("val"), torch.Tensor))


WINDOWS = {
    "of a vector": lambda j, x, i: j.lax.dynamic_slice(x[:, 0], (i,), (5,)),
    "of a matrix": lambda j, x, i: j.lax.dynamic_slice(x, (i, i % 2), (2, 3)),
    "a row": lambda j, x, i: j.lax.dynamic_index_in_dim(x, i, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_an_array_of_which_many_windows_are_taken_is_not_repeated(name):
    x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    places = np.random.default_rng(1).integers(-5, 220, 50).astype(np.int32)

    def program(j):
        taken = lambda x: j.vmap(lambda i: WINDOWS[name](j, x, i))(places)
        each = j.vmap(lambda y, i: WINDOWS[name](j, y, i))
        loss = lambda x: (taken(x) ** 2).sum() + (each(x[None] * places[:7, None, None], places[:7]) ** 2).sum()
        return (
            taken,
            j.grad(loss),
            lambda x: j.jvp(taken, (x,), (x * x,))[1],
            lambda x: j.vmap(j.grad(loss))(j.numpy.stack([x, -x])),
        )

    agree(lambda j, x: [f(x) for f in program(j)], x, rtol=1e-4, atol=1e-5)
    taken = lambda x: jaxish.vmap(lambda i: WINDOWS[name](jaxish, x, i))(places)
    assert _largest(jaxish.grad(lambda x: (taken(x) ** 2).sum()), x) <= max(x.size, 50 * 6)


def test_repetitions_are_not_compared_in_pairs():
    counts = np.array([0, 3, 0, 1, 2, 0, 5, 0], np.int32)
    repeated = lambda j, total: lambda n: j.numpy.repeat(j.numpy.arange(8), n, total_repeat_length=total)
    agree(lambda j, n: [j.jit(repeated(j, total))(n) for total in (4, 11, 20)], counts)
    assert _largest(repeated(jaxish, 200), counts) <= 201


UPDATED = ("set", "add", "multiply", "min", "max")


@pytest.mark.parametrize("how", UPDATED)
def test_derivatives_of_an_element_that_is_set_in_any_way(how):
    def program(j, x, y, i):
        f = j.jit(lambda x, y, i: getattr(x.at[i], how)(y))
        slope = j.grad(lambda x, y, i: (f(x, y, i)[:3] * np.arange(1, 4)).sum(), argnums=(0, 1))
        mapped = j.vmap(slope, (None, 0, None))(x, y * np.arange(1, 3), i)
        both = j.grad(lambda x: (j.vmap(f, (0, None, None))(j.numpy.stack([x, x * x]), y, i)[:, :3] ** 2).sum())
        return slope(x, y, i), mapped, both(x), j.hessian(lambda y: (f(x, y * y, i)[:3] ** 2).sum())(y)

    for i in (1, 3, 7):
        x = np.array([1, 2, 3, 0.5 if how == "multiply" else np.nan], np.float32)
        agree(program, x, np.float32(2), np.int32(i))


@pytest.mark.parametrize("how", UPDATED)
def test_derivatives_of_elements_that_are_set_in_lanes(how):
    options = {"unique_indices": True} if how == "multiply" else {}
    draw = np.random.default_rng(0).uniform
    x, y = draw(0.5, 1.5, (2, 3, 7)).astype(np.float32), draw(0.5, 1.5, (2, 3, 2)).astype(np.float32)
    places = np.array([[[1, 4], [0, 9], [-1, 2]], [[5, 6], [3, 0], [7, 1]]], np.int32)

    def ways(j, x, y, places):
        lanes = j.vmap(lambda x, y, i: getattr(x.at[i], how)(y, **options))
        loss = lambda x, y, i: (lanes(x, y, i) ** 2).sum()
        pushed = j.vmap(lambda x, y, i: j.jvp(lambda x, y: lanes(x, y, i), (x, y), (x * x, y * y))[1])(x, y, places)
        alone = (
            j.jvp(lambda y: lanes(x[0], y, places[0]), (y[0],), (y[1],))[1],
            j.jvp(lambda x: lanes(x, y[0], places[0]), (x[0],), (x[1],))[1],
        )
        slope = j.grad(loss, (0, 1))
        several = j.grad(lambda x, y: (j.vmap(lanes)(x, y, places) ** 2).sum(), (0, 1))(x, y)
        second = j.hessian(loss, (0, 1))(x[0], y[0], places[0])
        return pushed, alone, slope(x[0], y[0], places[0]), j.vmap(slope)(x, y, places), several, second

    agree(lambda j, *given: j.jit(lambda *given: ways(j, *given))(*given), x, y, places, rtol=1e-5, atol=1e-5)


def test_what_is_dropped_has_no_part_in_derivatives():
    product = lambda j, x, y: x.at[np.array([1, 7])].multiply(y, unique_indices=True, mode="drop").sum()
    x, y = np.arange(4, dtype=np.float32), np.array([2, np.nan], np.float32)
    agree(lambda j, x, y: j.grad(lambda x, y: product(j, x, y), argnums=(0, 1))(x, y), x, y)


@pytest.mark.parametrize(
    "updates", [[2, 3, 4, 1.5, 7], [0, 3, 4, 1.5, 7], [0, 0, 4, 1.5, 7]], ids=["", "zero", "zeros"]
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_derivatives_of_products_at_places_that_repeat(updates, dtype):
    # Of which JAX's rule is for places that do not: it knows them for a product over masked updates.
    places = np.array([1, 1, 0, 1, 5])
    masks = (places[:, None] == np.arange(3)).astype(np.float32)
    x, u = np.array([1, 2, 3], dtype), np.array(updates, dtype)

    def pushed(j):
        if j.__name__ == "jax":
            return lambda x, u: j.jvp(lambda x, u: x * (1 - masks + masks * u[:, None]).prod(0), (x, u), (u[:3], u + 1))
        return lambda x, u: j.jvp(lambda x, u: x.at[places].multiply(u), (x, u), (u[:3], u + 1))

    def back(j):
        if j.__name__ == "jax":
            return lambda x, u: j.vjp(lambda x, u: x * (1 - masks + masks * u[:, None]).prod(0), x, u)[1](x)
        return lambda x, u: j.vjp(lambda x, u: x.at[places].multiply(u), x, u)[1](x)

    for of in (pushed, back):
        agree(lambda j, x, u: of(j)(x, u), x, u)
        agree(lambda j, x, u: j.jit(of(j))(x, u), x, u)
        agree(lambda j, x, u: j.vmap(of(j), (None, 0))(x, u), x, np.stack([u, 2 * u]))
