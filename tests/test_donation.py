"""Compiled functions write into arrays that are donated to them, and loops into what they carry, where nothing else holds these."""

import functools
import threading

import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish._compile import donation, native_loop

ROWS = 6000
BUFFER = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
NEW = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
PLACES = np.array([5, -1, 0, ROWS + 3, 17, -ROWS - 2, 4000], np.int32)  # two are out of bounds

UPDATES = {
    "an element": lambda j, x, v, i: x.at[i[0], 1].set(v[0, 0]),
    "rows": lambda j, x, v, i: x.at[i].set(v),
    "added rows": lambda j, x, v, i: x.at[i].add(v, mode="drop"),
    "larger rows": lambda j, x, v, i: x.at[i].max(v),
    "a slice": lambda j, x, v, i: j.lax.dynamic_update_slice(x, v, (i[0], 0)),
    "one after the other": lambda j, x, v, i: x.at[i[0]].set(v[0]).at[i[2:5]].add(v[2:5]),
    "a column": lambda j, x, v, i: x.at[:, i[0] % 3].set(v[0, 0]),
    "of each example": lambda j, x, v, i: j.vmap(lambda x, k: x.at[k % 3].set(1.0))(x, j.numpy.arange(ROWS)),
    "by a fixed and a traced index": lambda j, x, v, i: x.at[i[1:3], 2].set(v[1:3, 0]).at[i[3], :2].add(v[3, :2]),
    "read before": lambda j, x, v, i: x.at[i].set(x[i[::-1]] + x.mean()),
}  # fmt: skip


def steps(j, update, count=3):
    """The array after some steps, and where it lies after each."""
    step = j.jit(functools.partial(update, j), donate_argnums=0)
    x, addresses = j.numpy.array(BUFFER), []
    for _ in range(count):
        x = step(x, NEW, PLACES)
        addresses.append(x.unsafe_buffer_pointer() if j is jaxish else None)
    return x, addresses


@pytest.mark.parametrize("name", UPDATES)
def test_what_is_donated_is_written_into(name, compiled):
    agree(lambda j: steps(j, UPDATES[name])[0])
    assert len(set(steps(jaxish, UPDATES[name])[1])) == 1


COPIED = {
    "returned as it was": lambda j, x, v, i: (x.at[i].set(v), x),
    "read later": lambda j, x, v, i: (y := x.at[i].set(v), x.sum() + y[0, 0]),
    "two of one": lambda j, x, v, i: (x.at[i[0]].set(v[0]), x.at[i[1]].set(v[1])),
    "part of it returned": lambda j, x, v, i: (y := x.at[i].set(v), y[4:7]),
    "a row of it returned": lambda j, x, v, i: (x.at[i].set(v), x[5]),
}


@pytest.mark.parametrize("name", COPIED)
def test_other_results_keep_their_values(name, compiled):
    def run(j):
        step, x, others = j.jit(functools.partial(COPIED[name], j), donate_argnums=0), j.numpy.array(BUFFER), []
        for n in range(3):
            x, other = step(x, NEW + n, PLACES)
            others.append(other)
        return x, others

    agree(run)


HOLDERS = {
    "a part": lambda x: x[3:8],
    "another array": lambda x: jaxish.jit(lambda x: x)(x),
    "NumPy": np.asarray,
    "a tensor": lambda x: x.to_torch(),
    "DLPack": torch.from_dlpack,
    "a trace": lambda x: jaxish.jit(lambda: x),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_others_hold_is_left_alone(name, compiled):
    step = jaxish.jit(functools.partial(UPDATES["rows"], jaxish), donate_argnums=0)
    x = step(jaxish.numpy.array(BUFFER), NEW, PLACES)
    held = HOLDERS[name](x)
    read = lambda: np.array((held() if name == "a trace" else held).tolist())
    before = read()
    after = step(x, NEW + 1, PLACES)
    np.testing.assert_array_equal(read(), before)
    assert not np.array_equal(np.asarray(after)[PLACES[0]], NEW[0])


def test_the_memory_of_others_is_left_alone(compiled):
    """What NumPy and torch gave may be read by them at any time."""
    step = jaxish.jit(functools.partial(UPDATES["rows"], jaxish), donate_argnums=0)
    tensor = torch.from_numpy(BUFFER.copy())
    for given in (BUFFER, jaxish.numpy.asarray(BUFFER), jaxish.from_torch(tensor), jaxish.dlpack.from_dlpack(tensor)):
        before = BUFFER.copy()
        step(given, NEW, PLACES)
        np.testing.assert_array_equal(BUFFER, before)
        np.testing.assert_array_equal(tensor.numpy(), before)


def cache_steps(j, length=5, with_part=True):
    def step(carry, x):
        cache, at = carry
        cache = j.lax.dynamic_update_slice(cache, x[None], (at, 0))
        return (cache, at + 1), (j.nn.softmax(cache @ x).sum(), cache[:2] if with_part else 0)

    x = j.numpy.array(NEW[:length])
    return j.lax.scan(step, (j.numpy.array(BUFFER), j.numpy.int32(2)), x)


def test_loops_write_into_what_they_carry(compiled, monkeypatch):
    """But for what a step returns beside it, here a part that lies in it."""
    agree(lambda j: j.jit(lambda: cache_steps(j))(), rtol=1e-5)
    agree(cache_steps, rtol=1e-5)
    for find in ("ready", "upcoming"):  # no C++ function for the whole loop
        monkeypatch.setattr(native_loop, find, lambda *_: None)
    held, writable = [], donation.writable
    monkeypatch.setattr(donation, "writable", lambda places: held.append(places) or writable(places))
    cache_steps(jaxish)
    cache_steps(jaxish, with_part=False)
    assert len(held) == 8 and not any(held[:4]) and all(held[4:]) and len(set(held[4:])) == 1


def test_a_while_loop_writes_into_what_it_carries(compiled):
    def run(j):
        def step(state):
            x, n = state
            return j.lax.dynamic_update_slice(x, (x[:7] * 0.5 + n).astype("float32"), (n, 0)), n + 1

        return j.jit(lambda x: j.lax.while_loop(lambda s: s[1] < 6, step, (x, 0)))(BUFFER)

    agree(run)


def test_threads_have_arrays_of_their_own(compiled):
    step = jaxish.jit(lambda x, i: x.at[i].add(1.0), donate_argnums=0)
    found = {}

    def run(number):
        x = jaxish.numpy.zeros(20_000)
        for i in range(50):
            x = step(x, i * number)
        found[number] = np.asarray(x)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for number, x in found.items():
        assert np.flatnonzero(x).tolist() == [i * number for i in range(50)] and x.sum() == 50


def test_what_a_failing_call_may_have_written_is_deleted(compiled):
    def fails(x):
        raise ValueError("as it should")

    def step(x):
        y = x.at[3].set(1.0)
        return y, jaxish.pure_callback(fails, jaxish.ShapeDtypeStruct((), np.float32), y[0])

    x = jaxish.numpy.zeros(20_000)
    with pytest.raises(Exception, match="as it should"):
        jaxish.block_until_ready(jaxish.jit(step, donate_argnums=0)(x))
    assert x.is_deleted() or not x.any()


def test_a_donated_argument_that_is_given_twice(compiled):
    step = jaxish.jit(lambda x, y: x.at[3].set(y[4]), donate_argnums=0)
    x = jaxish.numpy.zeros(20_000)
    with pytest.raises(RuntimeError, match=r"f\(donate\(a\), a\)"):
        step(x, x)
