"""Dtypes: NumPy dtypes outside, torch dtypes inside, and JAX's promotion lattice with its weak types between them.

`.dtype` of an Array is a NumPy dtype (ml_dtypes supplies bfloat16 and the 8-bit floats). Python scalars are weakly
typed: they take the dtype of what they meet. A type in the lattice is a pair (NumPy dtype, weak), and
`promote(a, b)` is the least upper bound of two, memoised. The lattice is documented at
https://docs.jax.dev/en/latest/jep/9407-type-promotion.html.
"""

import functools
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import torch

from . import config

# --------------------------------------------------------------------------------------------- the two sets of names

_SUBBYTE = ("int1", "int2", "int4", "uint1", "uint2", "uint4")
_PAIRS = (
    (np.bool_, torch.bool),
    (np.int8, torch.int8),
    (np.int16, torch.int16),
    (np.int32, torch.int32),
    (np.int64, torch.int64),
    (np.uint8, torch.uint8),
    (np.uint16, torch.uint16),
    (np.uint32, torch.uint32),
    (np.uint64, torch.uint64),
    (np.float16, torch.float16),
    (ml_dtypes.bfloat16, torch.bfloat16),
    (np.float32, torch.float32),
    (np.float64, torch.float64),
    (np.complex64, torch.complex64),
    (np.complex128, torch.complex128),
    (ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn),
    (ml_dtypes.float8_e4m3fnuz, torch.float8_e4m3fnuz),
    (ml_dtypes.float8_e5m2, torch.float8_e5m2),
    (ml_dtypes.float8_e5m2fnuz, torch.float8_e5m2fnuz),
    (ml_dtypes.float8_e8m0fnu, torch.float8_e8m0fnu),
    (ml_dtypes.float4_e2m1fn, torch.float4_e2m1fn_x2),
    *((getattr(ml_dtypes, n), getattr(torch, n)) for n in _SUBBYTE if hasattr(ml_dtypes, n)),
)
# Floats that torch does not have, and the dtypes that stand for them: bytes of which torch says nothing.
STAND_INS = {
    np.dtype(ml_dtypes.float8_e3m4): torch.bits8,
    np.dtype(ml_dtypes.float8_e4m3): torch.bits4x2,
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): torch.bits2x4,
}
TO_TORCH: dict[np.dtype, torch.dtype] = {np.dtype(n): t for n, t in _PAIRS} | STAND_INS
TO_NUMPY: dict[torch.dtype, np.dtype] = {t: n for n, t in TO_TORCH.items()}

HALVES = frozenset({torch.float16, torch.bfloat16})
# What torch stores and does not compute with (narrow.py).
NARROW = frozenset(t for n, t in TO_TORCH.items() if n.itemsize == 1 and n.type.__module__ == "ml_dtypes")
# Those that it converts from and to as XLA does; float8_e8m0fnu has neither sign nor zero, for which torch has values.
TORCH_FLOATS = frozenset(t for t in NARROW if t.is_floating_point) - {torch.float4_e2m1fn_x2, torch.float8_e8m0fnu}
SMALL_INTEGERS = frozenset(d for d in TO_TORCH if "int" in d.name and d.type.__module__ == "ml_dtypes")

bfloat16 = ml_dtypes.bfloat16
# The tangent dtype of integers and booleans: one value, no bytes.
float0 = np.dtype([("float0", np.void, 0)])

_NARROW = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_PYTHON_SCALARS: dict[type, np.dtype] = {
    torch.SymInt: np.dtype(np.int64),  # sizes that are symbols
    torch.SymFloat: np.dtype(np.float64),
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


class extended(np.generic):
    """The abstract scalar type above all dtypes that NumPy does not have (random keys)."""


class prng_key(extended):
    """The abstract scalar type of typed random keys: `issubdtype(key.dtype, prng_key)`."""


DType = np.dtype


class ExtendedDType:
    """Base class of dtype objects that are no NumPy dtype; `type` is their abstract scalar class.

    `impl` says what an element is (of a key its generator), `element_shape` which dimensions it takes in a tensor.
    """

    type: type
    name: str
    impl: Any
    element_shape: tuple[int, ...]


class TypePromotionError(ValueError):
    """Two dtypes have no common dtype to which both are promoted implicitly."""


# ------------------------------------------------------------------------------------------------- canonical dtypes


def dtype_of(dtype: Any) -> Any:
    """Return the NumPy dtype that a dtype-like value (scalar class, name, dtype, torch dtype) means, 64 bits kept."""
    if isinstance(dtype, np.dtype | ExtendedDType):
        return dtype
    if isinstance(dtype, torch.dtype):
        return TO_NUMPY[dtype]
    if isinstance(dtype, type) and dtype in _PYTHON_SCALARS:
        return _PYTHON_SCALARS[dtype]
    if isinstance(dtype, str) and hasattr(ml_dtypes, dtype):
        return np.dtype(getattr(ml_dtypes, dtype))
    own = getattr(dtype, "dtype", None)
    return own if isinstance(own, np.dtype | ExtendedDType) else np.dtype(dtype)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return `dtype` as arrays have it now: without `jax_enable_x64`, 64-bit dtypes become 32-bit ones."""
    dtype = dtype_of(dtype)
    if isinstance(dtype, ExtendedDType):
        if allow_extended_dtype:
            return dtype
        raise ValueError(f"Internal: canonicalize_dtype called on extended dtype {dtype}")
    if dtype == float0 or config.enable_x64.value:
        return dtype
    return _NARROW.get(dtype, dtype)


def requested_dtype(dtype: Any, function: str) -> Any:
    """Return the canonical form of a dtype that a user passed to `function`; warn where 64 bits are lost.

    Raises `TypeError` for a dtype that arrays cannot have, `ValueError` for an array, which has one.
    """
    wanted = dtype_of(dtype)
    if wanted is not dtype and not isinstance(dtype, type | str):
        if isinstance(dtype, np.ndarray):
            raise TypeError(f"{function} got an array as dtype. Use dtype=x.dtype.")
        if hasattr(dtype, "_tensor"):
            raise ValueError(f"{function} got an array as dtype. Use dtype=x.dtype.")
    if isinstance(wanted, ExtendedDType):
        return wanted
    if wanted not in TO_TORCH and wanted != float0:
        raise TypeError(
            f"{function} got dtype {wanted}, which is not a valid JAX array type on torch. "
            "Use a boolean, integer, floating or complex dtype."
        )
    canonical = canonicalize_dtype(wanted)
    if canonical != wanted and not (isinstance(dtype, type) and dtype in _PYTHON_SCALARS):
        warnings.warn(
            f"Explicitly requested dtype {wanted} requested in {function} is not available, and will be truncated "
            f"to dtype {canonical}. Set jax_enable_x64 (or the JAX_ENABLE_X64 environment variable) to use it.",
            stacklevel=_user_stacklevel(),
        )
    return canonical


def _user_stacklevel() -> int:
    import sys

    level, frame = 1, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("jaxish"):
        level, frame = level + 1, frame.f_back
    return level


def to_torch(dtype: Any) -> torch.dtype:
    """Return the torch dtype of a canonical NumPy dtype; raise `TypeError` where torch has none."""
    try:
        return TO_TORCH[dtype]
    except (KeyError, TypeError):
        raise TypeError(
            f"Dtype {dtype} is not a valid JAX array type. Only arrays of numeric types are supported, of those that torch has."
        ) from None


def scalar_type_of(x: Any) -> type:
    """Return the Python scalar class (bool, int, float or complex) of the value or dtype `x`."""
    dtype = dtype_of_value(x)
    if dtype == np.bool_:
        return bool
    if issubdtype(dtype, np.integer):
        return int
    if issubdtype(dtype, np.floating):
        return float
    if issubdtype(dtype, np.complexfloating):
        return complex
    raise TypeError(f"Invalid scalar value {x}")


def dtype_of_value(x: Any) -> Any:
    """Return the canonical dtype that the value or dtype `x` has as an array (`jnp.dtype` semantics of values)."""
    if type(x) in _PYTHON_SCALARS:
        return canonicalize_dtype(_PYTHON_SCALARS[type(x)])
    own = getattr(x, "dtype", None)
    if isinstance(own, np.dtype | ExtendedDType) and not isinstance(x, type):
        return canonicalize_dtype(own, allow_extended_dtype=True)
    # A member of an IntEnum is a number, of a class of its own.
    number = next((dtype for kind, dtype in _PYTHON_SCALARS.items() if isinstance(x, kind)), None)
    return canonicalize_dtype(x if number is None else number, allow_extended_dtype=True)


# ------------------------------------------------------------------------------------------------------ type queries

_ML_FLOATS = frozenset(d for d in TO_TORCH if d.type.__module__ == "ml_dtypes") - SMALL_INTEGERS


def _abstract_parent(dtype: Any) -> type:
    if dtype in SMALL_INTEGERS:
        return np.unsignedinteger if dtype.name.startswith("u") else np.signedinteger
    return np.floating if dtype in _ML_FLOATS else dtype.type


@functools.lru_cache(4096)
def _issubdtype(a: Any, b: Any) -> bool:
    if isinstance(a, type) and issubclass(a, extended):
        return isinstance(b, type) and issubclass(a, b)
    if isinstance(b, type) and issubclass(b, extended):
        return isinstance(a, ExtendedDType) and issubclass(a.type, b)
    if isinstance(a, ExtendedDType):
        return (isinstance(b, type) and issubclass(a.type, b)) or a == b
    if isinstance(b, ExtendedDType):
        return False
    is_abstract = isinstance(b, type) and issubclass(b, np.generic) and b.__module__ == "numpy" and b not in _CONCRETE
    if isinstance(a, type) and issubclass(a, np.generic) and a not in _CONCRETE and a.__module__ == "numpy":
        return is_abstract and issubclass(a, b)
    a = dtype_of(a)
    if is_abstract:
        return issubclass(_abstract_parent(a), b)
    return a == dtype_of(b)


_CONCRETE = frozenset(d.type for d in TO_TORCH)


def issubdtype(a: Any, b: Any) -> bool:
    """Tell whether dtype `a` is `b` or below it in NumPy's hierarchy, extended by ml_dtypes and random keys."""
    return _issubdtype(_scalar_class(a), _scalar_class(b))


def _scalar_class(x: Any) -> Any:
    if isinstance(x, type) and x in _PYTHON_SCALARS:
        return _PYTHON_SCALARS[x]
    if isinstance(x, np.dtype | ExtendedDType | type):
        own = getattr(x, "dtype", None)  # NumPy-like scalar classes (jnp.float32) carry their dtype
        return own if isinstance(own, np.dtype) else x
    return dtype_of(x)


def is_inexact(dtype: Any) -> bool:
    """Tell whether a NumPy dtype is floating or complex."""
    return dtype.kind in "fc" or dtype in _ML_FLOATS


def to_inexact(dtype: np.dtype) -> np.dtype:
    """Return the floating dtype in which a function like `sin` computes on values of `dtype`."""
    return dtype if is_inexact(dtype) else canonicalize_dtype(np.float64 if dtype.itemsize == 8 else np.float32)


def to_floating(dtype: np.dtype) -> np.dtype:
    """Return the real floating dtype with the precision of `dtype`."""
    return np.finfo(dtype).dtype if dtype.kind == "c" else to_inexact(dtype)


def to_complex(dtype: np.dtype) -> np.dtype:
    """Return the complex dtype with the precision of `dtype`."""
    if dtype.kind == "c":
        return dtype
    return np.dtype(np.complex128 if to_inexact(dtype) == np.float64 else np.complex64)


def itemsize_bits(dtype: Any) -> int:
    """Return the number of bits in one element of `dtype`, whose memory is a byte at least."""
    found = dtype_of(dtype)
    if found in SMALL_INTEGERS:
        return iinfo(found).bits
    return finfo(found).bits if found in _ML_FLOATS else found.itemsize * 8


def kind_of(dtype: np.dtype) -> str:
    """Return NumPy's letter for what a dtype is, which for those of ml_dtypes is "V" otherwise."""
    if dtype in SMALL_INTEGERS:
        return "u" if dtype.name.startswith("u") else "i"
    return "f" if dtype in _ML_FLOATS else dtype.kind


def is_inexact_tensor(dtype: torch.dtype) -> bool:
    """Tell whether a torch dtype is floating or complex, or stands for a float that torch does not have."""
    return dtype.is_floating_point or dtype.is_complex or dtype in STAND_INS.values()


@functools.cache
def integer_bounds(dtype: torch.dtype) -> Any:
    """Return what `torch.iinfo` does, of integers that it does not know, too."""
    return iinfo(TO_NUMPY[dtype])


finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo

# --------------------------------------------------------------------------------------------------- the lattice

_INT, _FLOAT, _COMPLEX = "int*", "float*", "complex*"  # the weak types
_SMALL_FLOATS = tuple(d.name for d in TO_TORCH if d.name.startswith(("float8", "float4")))
_SMALL_INTEGERS = tuple(d.name for d in TO_TORCH if d in SMALL_INTEGERS)


def _lattice(x64: bool) -> dict[str, tuple[str, ...]]:
    """Each type's next higher types. Without x64, uint32 with int32 gives int32, so that nothing widens to 64 bits."""
    return {
        "bool": (_INT,),
        _INT: ("uint8", "int8", *_SMALL_INTEGERS),
        **dict.fromkeys(_SMALL_INTEGERS, ()),
        "uint8": ("int16", "uint16"),
        "uint16": ("int32", "uint32"),
        "uint32": ("int64", "uint64") if x64 else ("int32", "uint64"),
        "uint64": (_FLOAT,),
        "int8": ("int16",),
        "int16": ("int32",),
        "int32": ("int64",),
        "int64": (_FLOAT,),
        _FLOAT: (*_SMALL_FLOATS, "bfloat16", "float16", _COMPLEX),
        **dict.fromkeys(_SMALL_FLOATS, ()),
        "bfloat16": ("float32",),
        "float16": ("float32",),
        "float32": ("float64", "complex64"),
        "float64": ("complex128",),
        _COMPLEX: ("complex64",),
        "complex64": ("complex128",),
        "complex128": (),
    }


def _strict_lattice() -> dict[str, tuple[str, ...]]:
    names = [d.name for d in TO_TORCH]
    ints = tuple(n for n in names if "int" in n)
    floats = tuple(n for n in names if "float" in n)
    complexes = tuple(n for n in names if "complex" in n)
    return {_INT: (_FLOAT, *ints), _FLOAT: (_COMPLEX, *floats), _COMPLEX: complexes, **dict.fromkeys(names, ())}


def _upper_bounds(lattice: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    @functools.cache
    def above(name: str) -> frozenset[str]:
        return frozenset({name}).union(*map(above, lattice[name]))

    return {name: above(name) for name in lattice}


_BOUNDS = {
    ("standard", False): _upper_bounds(_lattice(x64=False)),
    ("standard", True): _upper_bounds(_lattice(x64=True)),
    ("strict", False): _upper_bounds(_strict_lattice()),
    ("strict", True): _upper_bounds(_strict_lattice()),
}
_NOT_PROMOTED = {"float8": "8-bit floats", "float4": "4-bit floats"}
_WEAK_NAMES = {"i": _INT, "u": _INT, "f": _FLOAT, "c": _COMPLEX, "V": _FLOAT, "b": "bool"}
_WEAK_DTYPES = {_INT: np.dtype(np.int64), _FLOAT: np.dtype(np.float64), _COMPLEX: np.dtype(np.complex128)}

LatticeType = tuple[np.dtype, bool]  # (dtype, weak)


@functools.lru_cache(8192)
def _least_upper_bound(mode: str, x64: bool, types: frozenset[LatticeType]) -> LatticeType:
    bounds = _BOUNDS[mode, x64]
    names = {_WEAK_NAMES[d.kind] if weak and d != np.bool_ else d.name for d, weak in types}
    unknown = sorted(n for n in names if n not in bounds)
    if unknown:
        raise ValueError(f"dtype {unknown[0]} is not a valid dtype for JAX type promotion.")
    common = frozenset.intersection(*(bounds[n] for n in names))
    least = (common & names) or {n for n in common if common <= bounds[n]}
    if not least:
        advice = (
            "or set jax_numpy_dtype_promotion=standard."
            if mode == "strict"
            else f"for example x.astype('float32'). {_NOT_PROMOTED[kind]} do not support implicit promotion."
            if (kind := next((k for k in _NOT_PROMOTED if any(n.startswith(k) for n in names)), ""))
            else "for example x.astype('int32'). 1-bit, 2-bit and 4-bit integers do not support implicit promotion."
            if any(n in _SMALL_INTEGERS for n in names)
            else "for example by x.astype(...)."
        )
        raise TypePromotionError(
            f"Input dtypes {tuple(sorted(names))} have no available implicit dtype promotion path. "
            f"Cast the inputs to the output type that you want, {advice}"
        )
    (name,) = least
    if name in _WEAK_DTYPES:
        return (_WEAK_DTYPES[name] if x64 else _NARROW[_WEAK_DTYPES[name]]), True
    return np.dtype(getattr(ml_dtypes, name, None) or name), False


def promote(*types: LatticeType) -> LatticeType:
    """Return the least upper bound of (dtype, weak) pairs. Raises `TypePromotionError` where there is none."""
    return _promoted(config.numpy_dtype_promotion.value, config.enable_x64.value, types)


@functools.lru_cache(8192)
def _promoted(mode: str, x64: bool, types: tuple[LatticeType, ...]) -> LatticeType:
    # A single weak type keeps its own dtype: a weakly typed int8 stays int8, only in company it becomes int*.
    if len(set(types)) == 1:
        return types[0]
    if all(weak for _, weak in types) and len({d.kind for d, _ in types}) == 1:
        return max((d for d, _ in types), key=lambda d: d.itemsize), True
    return _least_upper_bound(mode, x64, frozenset(types))


def lattice_type(x: Any) -> LatticeType:
    """Return (canonical dtype, weak) of an array, a Python scalar, a NumPy value or a dtype-like.

    Raises `TypeError` for anything else.
    """
    kind = type(x)
    if kind in _PYTHON_SCALARS:
        found = _SCALAR_TYPES[kind, config.enable_x64.value]
        if kind is int:
            low, high = _INT_RANGES[found[0]]
            if not low <= x <= high:
                raise OverflowError(f"Python int {x} too large to convert to {found[0]}")
        return found
    if isinstance(x, type) and x in _PYTHON_SCALARS:
        return canonicalize_dtype(_PYTHON_SCALARS[x]), x is not bool
    weak = getattr(x, "weak_type", False)
    return dtype_of_value(x), bool(weak)


_SCALAR_TYPES = {
    (kind, x64): (dtype if x64 else _NARROW.get(dtype, dtype), kind is not bool)
    for kind, dtype in _PYTHON_SCALARS.items()
    for x64 in (False, True)
}
_INT_RANGES = {np.dtype(kind): (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in (np.int32, np.int64)}


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype of an operation on `args` (arrays, scalars or dtypes) under JAX's promotion rules."""
    if not args:
        raise ValueError("at least one array or dtype is required")
    dtype, weak = promote(*(lattice_type(a) for a in args))
    dtype = canonicalize_dtype(dtype, allow_extended_dtype=True)
    return (dtype, weak) if return_weak_type_flag else dtype


def promote_types(a: Any, b: Any) -> np.dtype:
    """Return the dtype to which two dtypes are promoted; `int`, `float` and `complex` stand for the weak types."""
    types = [(dtype_of(x), isinstance(x, type) and x in _PYTHON_SCALARS and x is not bool) for x in (a, b)]
    if not any(weak for _, weak in types) and types[0][0] == types[1][0]:
        return types[0][0]
    dtype, weak = _least_upper_bound(config.numpy_dtype_promotion.value, config.enable_x64.value, frozenset(types))
    return _PYTHON_SCALARS[{"i": int, "f": float, "c": complex}[dtype.kind]] if weak else dtype
