"""What it means that two tiers agree, and the batches of programs that are compared.

A case is one lane of one program, compared between two of JAX, the direct tier and the compiled one. Exact: integers,
booleans, the kinds of floating values (NaN, either infinity, zero and its sign). Finite numbers agree to a tolerance.
Not compared are

* subnormal numbers, as results or as what these differ by, and lanes that start from them: XLA makes zero of them;
* lanes of floating programs whose value depends on the rounding within: JAX or the direct tier gives another one in
  the other precision;
* lanes of complex programs at infinities, zeros and branch cuts where JAX and the direct tier differ. Complex numbers
  agree by their distance;
* which of two zeros an extremum, a sum, a solution or a quotient rounded down is: torch's own kernels differ there, and MKL's by processor.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from programs import Program
from tiers import Lanes, is_native, tier

import jaxish

_PAIRS = (("direct", "jax"), ("compiled", "jax"), ("compiled", "direct"))
_TOLERANCES = {"float32": 1e-5, "float64": 1e-9, "complex64": 1e-5, "complex128": 1e-9}
_CONDITIONS = {
    "float32": ("float64", 3e-6),
    "float64": ("float32", 1e-2),
    "complex64": ("complex128", 3e-6),
    "complex128": ("complex64", 1e-2),
}
_SIGN_OF_ZERO_IS_FREE = (
    "max", "min", "relu", "clip", "clamp", "sum", "mean", "@", "dot", "//", "hypot", "sort", "nn.", "window", "solve",
)  # fmt: skip
# torch's vectors for fmod give NaN where the quotient overflows (docs/differences.md).
_REMAINDERS = ("%", "fmod", "rem", "//")


@dataclass(frozen=True)
class Failure:
    """Lanes of a program on which two tiers differ."""

    way: str
    pair: tuple[str, str]
    program: Program
    count: int
    lane: tuple[Any, ...]
    values: tuple[Any, Any]

    def __str__(self) -> str:
        x, y, p, q = self.lane
        names = f"x, y = np.array([{x!r}, {y!r}], {self.program.dtype!r}); p, q = {p!r}, {q!r}"
        return (
            f"{self.way}, {self.program.dtype}: {self.program.text}\n    {names}\n    {self.pair[0]}: {self.values[0]!r}, "
            f"{self.pair[1]}: {self.values[1]!r} ({self.count} lanes)"
        )


def differences(found: np.ndarray, wanted: np.ndarray, tolerance: float, signed_zeros: bool) -> np.ndarray:
    """Return where two arrays differ."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return np.ones(wanted.shape, bool)
    if wanted.dtype.kind == "c":
        return _distant(found, wanted, tolerance)
    if wanted.dtype.kind != "f":
        return found != wanted
    tiny = np.finfo(wanted.dtype).tiny
    with np.errstate(all="ignore"):
        f, w = (np.where(np.abs(v) <= tiny, 0, v) for v in (found, wanted))
        near = (np.abs(f - w) <= tolerance * np.abs(w)) | (np.abs(found - wanted) <= tiny)
        near &= np.isfinite(f) & np.isfinite(w)
    same = (f == w) | (np.isnan(f) & np.isnan(w)) | near
    if signed_zeros:
        same &= (found != 0) | (wanted != 0) | (np.signbit(found) == np.signbit(wanted))
    return ~same


def _distant(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    parts = [differences(getattr(found, p), getattr(wanted, p), tolerance, False) for p in ("real", "imag")]
    with np.errstate(all="ignore"):
        near = np.abs(found - wanted) <= tolerance * np.abs(wanted)
    return (parts[0] | parts[1]) & ~(near & np.isfinite(found) & np.isfinite(wanted))


def _overflows(x: np.ndarray) -> np.ndarray:
    """Return where products of complex numbers are out of range, so that it matters which of them are fused with a sum."""
    parts = np.stack([np.real(x), np.imag(x)])
    return np.any(np.isfinite(parts) & (np.abs(parts) > 1e6), 0)


def is_ordinary(x: np.ndarray) -> np.ndarray:
    """Return where complex numbers are none of those on which libraries differ: large, tiny, zero, or beside a branch cut."""
    parts = np.stack([np.real(x), np.imag(x)])
    sizes = np.abs(parts)
    cut = np.signbit(parts) & (sizes == 0)
    return (x != 0) & np.all(((sizes == 0) & ~cut) | ((sizes > 1e-6) & (sizes < 80)), 0)


Way = Callable[[Any, Sequence[Program], Lanes], list[np.ndarray]]


def compare(
    way: Way, programs: Sequence[Program], lanes: Lanes, wanted: Way | None = None
) -> tuple[int, list[Failure]]:
    """Compute a batch in one way on each tier; return how many cases were compared, and those that differ.

    With `wanted`, JAX and the direct tier compute it in that way, which may be a faster one.
    """
    wanted = wanted or way
    found = {"jax": wanted(jax, programs, lanes)}
    with tier("direct"):
        found["direct"] = wanted(jaxish, programs, lanes)
    with tier("compiled"):
        found["compiled"] = way(jaxish, programs, lanes)
    usable = _usable(wanted, programs, lanes, found)
    if len(found["jax"]) != len(programs):  # each result is of several programs
        together = Program("; ".join(p.text for p in programs), programs[0].dtype, "")
        programs = [together] * len(found["jax"])
    count, failures = 0, []
    for position, program in enumerate(programs):
        signed_zeros = program.is_single and not any(w in program.text for w in _SIGN_OF_ZERO_IS_FREE)
        for pair in _PAIRS:
            first, second = (found[name][position] for name in pair)
            tolerance = _TOLERANCES.get(str(second.dtype), 0)
            wrong = differences(first, second, tolerance, signed_zeros) & usable[position].reshape(second.shape)
            count += int(usable[position].sum())
            if wrong.any():
                lane = int(np.flatnonzero(wrong)[0])
                at = tuple(v.reshape(-1)[lane].item() for v in lanes)
                values = (first.reshape(-1)[lane].item(), second.reshape(-1)[lane].item())
                failures.append(Failure(way.__name__, pair, program, int(wrong.sum()), at, values))
    return count, failures


def _usable(
    way: Way, programs: Sequence[Program], lanes: Lanes, found: dict[str, list[np.ndarray]]
) -> list[np.ndarray]:
    """Return for each program which lanes are compared."""
    x, y = lanes[:2]
    usable = [np.ones(x.shape, bool) for _ in found["jax"]]
    dtype = str(x.dtype)
    if dtype not in _CONDITIONS:
        return usable
    tiny = np.finfo(dtype).tiny
    ordinary = ~(((x != 0) & (np.abs(x) < tiny)) | ((y != 0) & (np.abs(y) < tiny)))
    with np.errstate(all="ignore"):
        overflow = np.isinf(x / y) & np.isfinite(x) & (y != 0)
    other, tolerance = _CONDITIONS[dtype]
    with tier("direct"), np.errstate(all="ignore"):
        given = [v.astype(other) if v.dtype == x.dtype else v for v in lanes]
        beyond = sum(np.isfinite(v) & ~np.isfinite(v.astype(other)) for v in (x, y))
        again = {"jax": way(jax, programs, given), "direct": way(jaxish, programs, given)}
    for position, program in enumerate(programs[: len(usable)]):
        usable[position] &= ordinary
        if x.dtype.kind == "c":
            differ = differences(found["direct"][position], found["jax"][position], _TOLERANCES[dtype], False)
            usable[position] &= ~(_overflows(x) | _overflows(y))
            usable[position] &= ~differ.reshape(x.shape) | (is_ordinary(x) & is_ordinary(y))
        if any(name in program.text for name in _REMAINDERS):
            usable[position] &= ~overflow
        if program.is_exact:
            continue
        usable[position] &= beyond == 0
        for name in again:
            result = found[name][position]
            with np.errstate(all="ignore"):
                rounded = again[name][position].astype(result.dtype)
            usable[position] &= ~(_overflows(x) | _overflows(y))
            usable[position] &= ~differences(rounded, result, tolerance, False).reshape(x.shape)
    return usable


def groups(programs: Sequence[Program], lanes: Lanes, size: int) -> Iterator[list[Program]]:
    """Return the programs in batches, those that run as C++ functions apart from those that do not."""
    native = [is_native(p, lanes) for p in programs]
    for kind in (True, False):
        chosen = [p for p, n in zip(programs, native, strict=True) if n is kind]
        for start in range(0, len(chosen), size):
            yield chosen[start : start + size]
