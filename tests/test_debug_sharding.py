"""jax.debug on arrays over several devices: pictures, shardings seen under jit, a call for each device's part, as in JAX."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def laid_out(j, *spec, x=X):
    mesh = j.sharding.Mesh(np.array(j.devices()).reshape(4, 2), ("x", "y"))
    return j.device_put(x, j.sharding.NamedSharding(mesh, j.sharding.PartitionSpec(*spec)))


def printed(program, j, capfd):
    """Return the texts that a program prints, each ended by a bar: devices print in any order."""
    try:
        program(j)
        j.effects_barrier()
    except Exception as error:
        return type(error).__name__
    return sorted(text.strip() for text in capfd.readouterr().out.split("|"))


def both(program, capfd):
    wanted = printed(program, jax, capfd)
    assert printed(program, jaxish, capfd) == wanted
    return wanted


# ------------------------------------------------------------------------------------------------------------ pictures

PICTURES = {
    "rows and columns": (("x", "y"), (8, 4), {}),
    "columns alone": ((None, "y"), (8, 4), {}),
    "rows of both": ((("x", "y"),), (8, 4), {}),
    "turned": (("y", "x"), (8, 4), {}),
    "whole": ((), (8, 4), {}),
    "wide": (("x",), (16, 400), {}),
    "larger": (("x", "y"), (8, 8), {"scale": 3.0}),
    "smaller": (("x", "y"), (8, 8), {"scale": 0.3}),
    "wider cells": (("x", "y"), (8, 8), {"min_width": 15}),
    "a vector": (("x",), (8,), {}),
    "a vector, whole": ((), (8,), {}),
    "without colours": (("x", "y"), (8, 4), {"use_color": False}),
    "three dimensions": ((), (2, 2, 2), {}),
    "none": ((), (), {}),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name, capfd):
    pytest.importorskip("rich")  # with which JAX draws
    spec, shape, options = PICTURES[name]
    both(
        lambda j: j.debug.visualize_array_sharding(laid_out(j, *spec, x=np.zeros(shape, np.float32)), **options), capfd
    )


def test_labels_too_long_for_their_cells_go_on_in_the_next_line(capfd):
    sharding = laid_out(jaxish, ()).sharding
    jaxish.debug.visualize_sharding((8, 4), sharding, max_width=12)
    lines = capfd.readouterr().out.splitlines()
    assert "".join(line.strip("│ ") for line in lines[1:-1]) == "CPU 0,1,2,3,4,5,6,7"
    assert {len(line) for line in lines} == {12}


def test_cells_have_the_colours_of_the_map(monkeypatch, capfd):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    asked = []

    def black_to_red(place):
        asked.append(place)
        return place, 0.0, 0.0, 1.0

    jaxish.debug.visualize_sharding((8,), laid_out(jaxish, "x", x=X[:, 0]).sharding, color_map=black_to_red)
    text = capfd.readouterr().out
    assert sorted(asked) == [0, 1 / 3, 2 / 3, 1]
    assert all(f"48;2;{int(red * 255)};0;0m" in text for red in asked)


# ------------------------------------------------------------------------------------------------- shardings under jit


def seen(j, function, *spec, **options):
    """Return the shardings that `inspect_array_sharding` tells of, in a jitted function of an array that lies so."""
    found = []

    def program(x):
        return function(j, x, lambda y: j.debug.inspect_array_sharding(y, callback=lambda s: found.append(str(s.spec))))

    x = laid_out(j, *spec)
    with j.set_mesh(x.sharding.mesh):
        j.block_until_ready(j.jit(program, **options)(x))
    return found


INSPECTED = {
    "an argument": lambda j, x, look: (look(x), x + 1)[1],
    "elementwise": lambda j, x, look: (look(j.numpy.sin(x) + 1), x)[1],
    "turned": lambda j, x, look: (look(x.T), x)[1],
    "a constraint": lambda j, x, look: look(j.lax.with_sharding_constraint(x, j.sharding.PartitionSpec("y"))),
    "within jit": lambda j, x, look: j.jit(lambda x: (look(x), x)[1])(x),
}


@pytest.mark.parametrize("name", INSPECTED)
def test_shardings_within_jit(name):
    agree(lambda j: seen(j, INSPECTED[name], "x", "y"))


def test_shardings_are_told_once():
    def program(j):
        found = []

        @j.jit
        def f(x):
            j.debug.inspect_array_sharding(x, callback=found.append)
            return x * 2

        x = laid_out(j, "x")
        return [f(x), f(x), f(x)], len(found)

    agree(program)


def test_a_function_that_is_looked_into_compiles(compiled):
    f = jaxish.jit(lambda x: (jaxish.debug.inspect_array_sharding(x, callback=print), x * 2 + 1)[1])
    np.testing.assert_array_equal(f(X), X * 2 + 1)


def test_outside_of_jit():
    def program(j):
        found = []
        arrays = laid_out(j, "x", "y"), {"a": j.numpy.ones(3)}
        j.debug.inspect_array_sharding(arrays, callback=lambda s: found.append(len(s.device_set)))
        return found

    agree(program)


@pytest.mark.parametrize("transformed", [lambda f: jaxish.vmap(f), lambda f: jaxish.grad(f)])
def test_transformed_arrays_are_on_one_device(transformed):  # JAX has no answer for them
    found = []

    def f(x):
        jaxish.debug.inspect_array_sharding(x, callback=found.append)
        return (x * x).sum()

    transformed(f)(X)
    assert found == [jaxish.sharding.SingleDeviceSharding(jaxish.devices()[0])]


def test_what_is_refused_in_loops():
    def looked(x):
        jaxish.debug.inspect_array_sharding(x, callback=print)

    def shown(x):
        jaxish.debug.print("{}", x, partitioned=True)

    for effect in (looked, shown):
        with pytest.raises(NotImplementedError, match="loops"):
            jaxish.jit(lambda x, f=effect: jaxish.lax.scan(lambda c, row: (c, f(row)), 0, x))(X)


# ----------------------------------------------------------------------------------------------- a call for each device


def show(j, *values, fmt="{}|"):
    with j.numpy.printoptions(linewidth=200) if j is jax else np.printoptions(linewidth=200):
        j.debug.print(fmt, *values, partitioned=True)


PARTS = {
    "jit": lambda j: j.jit(lambda x: show(j, x))(laid_out(j, "x", "y")),
    "eager": lambda j: show(j, laid_out(j, "x", "y")),
    "computed": lambda j: j.jit(lambda x: show(j, x * 2))(laid_out(j, "x", "y")),
    "split along one axis": lambda j: j.jit(lambda x: show(j, x))(laid_out(j, None, "y")),
    "two arrays": lambda j: j.jit(lambda x, y: show(j, x, y, fmt="{} {}|"))(laid_out(j, "x"), laid_out(j, None, "y")),
    "vmap along what is whole": lambda j: j.jit(j.vmap(lambda x: show(j, x), 1))(laid_out(j, "x")),
    "vmap along what is split": lambda j: j.jit(j.vmap(lambda x: show(j, x)))(laid_out(j, "x", "y")),
    "vmap along different axes": lambda j: j.jit(j.vmap(lambda x, y: show(j, x, y, fmt="{} {}|"), (0, 1)))(
        laid_out(j, "x", "y", x=X[:4]), laid_out(j, "x", "y", x=X[:4])
    ),
    "vmap of vmap": lambda j: j.jit(j.vmap(j.vmap(lambda x: show(j, x))))(laid_out(j, "x", "y")),
    "on one device": lambda j: j.jit(lambda x: show(j, x))(X),
    "shard_map": lambda j: j.shard_map(
        lambda x: (show(j, x), x)[1], mesh=laid_out(j).sharding.mesh, in_specs=j.P("x", "y"), out_specs=j.P("x", "y")
    )(X),
    "ordered": lambda j: j.jit(lambda x: j.debug.print("{}", x, ordered=True))(laid_out(j, "x", "y")),
    "ordered, pmap": lambda j: j.pmap(lambda x: (j.debug.print("{}", x, ordered=True), x)[1])(X),
    "ordered, one device": lambda j: j.jit(lambda x: j.debug.print("{}", x, ordered=True))(X),
    "an option in the second call": lambda j: j.debug.print(ordered=True)("{a}", a=1, partitioned=True),
    "arguments in the first call": lambda j: j.debug.print(None, 1, ordered=True),
    "arguments in the first call of callback": lambda j: j.debug.callback(a=1),
    "values without fields": lambda j: j.debug.print("x", 1, skip_format_check=True),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(name, capfd):
    both(PARTS[name], capfd)


def test_each_call_has_the_parts_of_its_own_sharding(capfd):
    def program(j):
        f = j.jit(lambda x: show(j, x))
        for spec in (("x",), (None, "y"), ("x",)):
            f(laid_out(j, *spec))

    both(program, capfd)


def test_log_records_say_where_the_call_is(caplog):
    def records(j):
        caplog.clear()
        j.jit(lambda x: j.debug.log("x={}", x))(2)
        j.effects_barrier()
        return [(r.name, r.levelname, r.message, r.pathname, r.lineno) for r in caplog.records if r.message == "x=2"]

    assert records(jaxish) == records(jax) != []
