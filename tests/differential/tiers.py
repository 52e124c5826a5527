"""The ways in which a batch of programs is computed.

A batch is several programs of one dtype, so that JAX, Inductor and the C++ compiler are each asked once for all. Each
way takes the lanes of x, y, p, q, and returns an array of lanes per program.
"""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from programs import Program

import jaxish
from jaxish._compile import loop_emitter, loop_sources, loop_values
from jaxish._core import config

Lanes = Sequence[np.ndarray]


@contextmanager
def tier(name: str):
    """Within this context manager jaxish runs on the tier `name`."""
    before = config.jit_tier.value
    config.jit_tier.set(name)
    try:
        yield
    finally:
        config.jit_tier.set(before)


def _arrays(library: Any, results: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in library.tree_util.tree_leaves(results)]


def whole(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute all lanes at once: an array's elements."""
    return _arrays(library, library.jit(library.vmap(lambda *v: [p(library, *v) for p in programs]))(*lanes))


def indexed(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute lane by lane, in a scan over them."""
    step = lambda carry, v: (carry, [p(library, *v) for p in programs])
    return _arrays(library, library.lax.scan(step, 0, tuple(lanes))[1])


def captured(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute lane by lane in a loop that reads the lanes, constants of it, by its index, and writes into its carry."""
    constants = [library.numpy.asarray(v) for v in lanes]
    empty = [library.numpy.zeros(len(lanes[0]), p.result) for p in programs]

    def step(i: Any, found: Any) -> Any:
        values = [c[i] for c in constants]
        return [f.at[i].set(p(library, *values)) for f, p in zip(found, programs, strict=True)]

    return _arrays(library, library.lax.fori_loop(0, len(lanes[0]), step, empty))


def batched(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute rows of lanes, each in a step of one batched scan."""
    rows = [v.reshape(-1, 16) for v in lanes]
    return _arrays(library, library.vmap(lambda *v: indexed_rows(library, programs, v), 1, 1)(*rows))


def indexed_rows(library: Any, programs: Sequence[Program], rows: Any) -> Any:
    """Return the results of a scan, for a vmap around it."""
    return library.lax.scan(lambda c, v: (c, [p(library, *v) for p in programs]), 0, rows)[1]


def carried(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute x = program(x, y, p, q) three times over, each program on what it gave before."""
    x, *rest = (library.numpy.asarray(v) for v in lanes)
    step = lambda i, found: [
        library.vmap(lambda *v, p=p: p(library, *v))(f, *rest) for f, p in zip(found, programs, strict=True)
    ]
    return _arrays(library, library.lax.fori_loop(0, 3, step, [x] * len(programs)))


def repeated(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute x = program(x, y, p, q) while another program says so, at most five times, lane by lane in a batch."""
    test, *steps = programs

    def one(*v: Any) -> Any:
        x, *rest = v
        going = lambda s: (s[0] < 5) & test(library, s[1][0], *rest)
        step = lambda s: (s[0] + 1, [p(library, f, *rest) for p, f in zip(steps, s[1], strict=True)])
        return library.lax.while_loop(going, step, (0, [x] * len(steps)))

    return _arrays(library, library.vmap(one)(*lanes))


def chosen(library: Any, programs: Sequence[Program], lanes: Lanes) -> list[np.ndarray]:
    """Compute one half of the programs or the other, as the first says, in a scan within a scan."""
    test, *rest = programs
    first, second = rest[::2], rest[1::2]

    def inner(carry: Any, v: Any) -> Any:
        branches = [lambda ps=ps: [p(library, *v) for p in ps] for ps in (first, second)]
        return carry, library.lax.cond(test(library, *v), *branches)

    rows = tuple(v.reshape(-1, 8) for v in lanes)
    return _arrays(library, library.lax.scan(lambda c, v: (c, library.lax.scan(inner, 0, v)[1]), 0, rows)[1])


def _scan_over(program: Program, lanes: Lanes) -> Any:
    step = lambda carry, v: (carry, program(jaxish, *v))
    nodes = jaxish.jit(lambda *v: jaxish.lax.scan(step, 0, v)).trace(*lanes)._program.closed.graph.module.graph.nodes
    return next(n.target for n in nodes if hasattr(n.target, "carries"))


def is_native(program: Program, lanes: Lanes) -> bool:
    """Tell whether a scan over this program is one C++ function."""
    scan = _scan_over(program, lanes)
    try:
        loop_sources.scan_source(scan.body, scan.consts, scan.carries)
    except loop_values.Unsupported:
        return False
    return True


def operators_of(program: Program, lanes: Lanes) -> set[str]:
    """Return the names of the operators that this program comes down to."""
    body = loop_emitter.spelled_out(_scan_over(program, lanes).body)
    targets = [n.target for n in body.module.graph.nodes if n.op == "call_function"]
    return {getattr(target, "__name__", "").split(".")[0] for target in targets}
