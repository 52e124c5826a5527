"""Values at which operators go wrong, and random ones between them."""

import numpy as np

_FLOATING = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.nan, np.inf, -np.inf, 127.5, 128.0, -128.5, -129.0, 255.5,
    256.0, 32767.5, -32769.0, 2.0**31, 2.0**31 - 128, -(2.0**31), 2.0**24 + 2, 2.0**63, -(2.0**63), 2.0**64, 1e10, 1e-8,
    1e20, -1e20, 88.7, -87.3, 104.0, np.pi, -np.pi / 2, 0.1, 7.0,
]  # fmt: skip


_PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.nan, np.inf, -np.inf, 1e5, -1e-20, np.pi, 100.0]


def hard(dtype: str) -> np.ndarray:
    """Return the values of a dtype that are at its borders."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind == "c":
        parts = np.array(_PARTS, kind.type().real.dtype)
        return _complex(*(v.ravel() for v in np.meshgrid(parts, parts)))
    if kind.kind == "f":
        info = np.finfo(kind)
        ends = [
            info.max,
            info.min,
            info.tiny,
            -info.tiny,
            info.smallest_subnormal,
            info.eps,
            1 + info.eps,
            1 - info.eps,
        ]
        halves = [np.nextafter(kind.type(v), kind.type(s)) for v in (0.5, 2.5, 1.0) for s in (0, 9)]
        return np.array([*_FLOATING, *ends, *halves], kind)
    info, width = np.iinfo(kind), 8 * kind.itemsize
    small = [0, 1, 2, 3, 5, 7, 10, width - 1, width, width + 1, 31, 32, 33, 64, 100]
    numbers = [*small, *(-n for n in small), info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 46341]
    return np.array(sorted({n for n in numbers if info.min <= n <= info.max}), kind)


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Return complex numbers with these parts, whose zeros and infinities no multiplication by 1j has touched."""
    return np.stack([real, imag], -1).view(np.result_type(real.dtype, np.complex64))[:, 0]


def drawn(dtype: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Return random values of a dtype: hard ones, numbers of ordinary size, and any bits, a third of each."""
    kind = np.dtype(dtype)
    if kind.kind == "c":
        real, imag = (drawn(str(kind.type().real.dtype), count, random) for _ in range(2))
        return np.where(random.integers(0, 3, count) == 0, random.choice(hard(dtype), count), _complex(real, imag))
    among = random.choice(hard(dtype), count)
    if kind.kind == "b":
        return among
    if kind.kind == "f":
        ordinary = (random.standard_normal(count) * 10.0 ** random.integers(-3, 4, count)).astype(kind)
    else:
        ordinary = random.integers(max(np.iinfo(kind).min, -20), 20, count).astype(kind)
    bits = random.integers(0, 256, (count, kind.itemsize), np.uint8).view(kind)[:, 0]
    bits = np.where(bits == bits, bits, np.nan).astype(kind)  # none that signals
    return np.choose(random.integers(0, 3, count), [among, ordinary, bits])


def lanes(dtype: str, count: int, random: np.random.Generator) -> list[np.ndarray]:
    """Return `count` values for each of x, y (of `dtype`), p, q (bool): pairs of hard values, then what is drawn."""
    among, place = hard(dtype), np.arange(count)
    paired = place < min(len(among) ** 2, count // 2)
    x = np.where(paired, among[place % len(among)], drawn(dtype, count, random))
    y = np.where(paired, among[place // len(among) % len(among)], drawn(dtype, count, random))
    return [x, y, drawn("bool", count, random), drawn("bool", count, random)]
