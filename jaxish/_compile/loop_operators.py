"""What each of torch's operators is in a native loop: an expression of C++ per kind of dtype.

Kinds are NumPy's letters: b (bool), i and u (signed and unsigned integers), f (floating), c (complex); and w for unsigned
words, which torch moves and converts, but does not compute with: their bits are computed with as signed ones. An operator has no
meaning for a kind that its entry leaves out, and a loop with it runs step by step. Operands come converted to the dtype that
is computed in; what the functions do is in loop_prelude.py and loop_complex.py. The harness in tests/differential goes over these tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import fx

from .._core import dtypes

C_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.int32: "int32_t", torch.int64: "int64_t",
    torch.int16: "int16_t", torch.int8: "int8_t", torch.bool: "bool",
    torch.complex64: "Complex<float>", torch.complex128: "Complex<double>",
    torch.uint8: "uint8_t", torch.uint16: "uint16_t", torch.uint32: "uint32_t", torch.uint64: "uint64_t",
    torch.float16: "Half", torch.bfloat16: "BFloat",
}  # fmt: skip
COMPUTED_WITH = tuple(dtype for dtype in C_TYPES if dtype not in dtypes.HALVES)  # for these see loop_halves.py

_WORDS = {torch.uint16, torch.uint32, torch.uint64}


def kind_of(dtype: torch.dtype) -> str:
    """Return the letter of a dtype's kind."""
    if dtype is torch.bool:
        return "b"
    if dtype in _WORDS:
        return "w"
    if dtype.is_complex:
        return "c"
    return "f" if dtype.is_floating_point else "i" if dtype.is_signed else "u"


SETTING = ("index_put", "scatter", "scatter_add", "scatter_reduce")  # elements at computed places


def name_of(node: fx.Node) -> str:
    """Return the name by which these tables have what a node calls."""
    return getattr(node.target, "__name__", "").split(".")[0]


@dataclass(frozen=True)
class Operator:
    """An elementwise operator: expressions of {0}, {1}, ... by kinds ("iu": both), and the dtype they are of."""

    forms: Mapping[str, str]
    of_operands: bool = False  # computed in the operands' common dtype, as comparisons are; else in the result's
    of_booleans: bool = False  # computed in booleans

    def form(self, dtype: torch.dtype) -> str | None:
        """Return the expression for operands of `dtype`, or None where there is none."""
        kind = kind_of(dtype)
        return next((form for kinds, form in self.forms.items() if kind in kinds), None)


def _floating(expression: str) -> Operator:
    return Operator({"f": expression})


def _inexact(expression: str) -> Operator:
    return Operator({"fc": expression})


def _rounding(function: str) -> Operator:
    return Operator({"f": f"std::{function}({{0}})", "iu": "{0}"})


def _comparison(symbol: str, kinds: str = "biuf") -> Operator:
    return Operator({kinds: f"{{0}} {symbol} {{1}}"}, of_operands=True)


def _bitwise(symbol: str) -> Operator:
    return Operator({"biuw": f"{{0}} {symbol} {{1}}"})


def _logical(expression: str) -> Operator:
    return Operator({"b": expression}, of_booleans=True)


_SAME = Operator({"biufcw": "{0}"})
_SHIFT_LEFT, _SHIFT_RIGHT = Operator({"iu": "shift_left({0}, {1})"}), Operator({"iu": "shift_right({0}, {1})"})

OPERATORS = {
    **dict.fromkeys(("clone", "alias", "detach", "_to_copy", "lift_fresh", "lift_fresh_copy"), _SAME),
    **{n: _inexact(f"{n}_({{0}})") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")},
    **{n: _inexact(f"{n}_({{0}})") for n in ("asinh", "acosh", "atanh", "exp", "exp2", "expm1")},
    **{n: _inexact(f"{n}_({{0}})") for n in ("log", "log2", "log10", "log1p")},
    **{n: _floating(f"{n}_({{0}})") for n in ("erf", "erfc")},
    "sqrt": Operator({"f": "std::sqrt({0})", "c": "sqrt_({0})"}),
    **{n: _rounding(n) for n in ("floor", "ceil", "trunc")},
    "round": _rounding("nearbyint"),
    "rsqrt": Operator({"f": "1 / std::sqrt({0})", "c": "1 / sqrt_({0})"}),
    "logaddexp": _floating("logaddexp({0}, {1})"),
    "logaddexp2": _floating("logaddexp2({0}, {1})"),
    "digamma": _floating("digamma_({0})"),
    "nan_to_num": _floating("nan_to_num({0})"),
    "ldexp": _floating("{0} * exp2_({1})"),
    "hypot": _floating("hypot_({0}, {1})"),
    "copysign": _floating("std::copysign({0}, {1})"),
    "reciprocal": _inexact("1 / ({0})"),
    "sigmoid": _inexact("1 / (1 + exp_(-({0})))"),
    "neg": Operator({"fc": "-({0})", "iu": "negate({0})"}),
    "abs": Operator({"f": "std::abs({0})", "i": "absolute({0})", "u": "{0}", "c": "magnitude({0})"}, of_operands=True),
    "complex": Operator({"f": "complex_of({0}, {1})"}, of_operands=True),
    **dict.fromkeys(("_conj", "_conj_physical"), Operator({"c": "conjugate({0})"})),
    "sign": Operator({"iuf": "sign({0})", "b": "{0}"}),
    "sgn": Operator({"iufc": "sign({0})", "b": "{0}"}),
    "relu": Operator({"iuf": "relu({0})"}),
    "bitwise_not": Operator({"b": "!({0})", "iu": "~({0})"}),
    "logical_not": _logical("!({0})"),
    "add": Operator({"fc": "{0} + {1}", "iu": "add({0}, {1})", "b": "{0} | {1}"}),
    "sub": Operator({"fc": "{0} - {1}", "iu": "subtract({0}, {1})"}),
    "mul": Operator({"fc": "{0} * {1}", "iu": "multiply({0}, {1})", "b": "{0} & {1}"}),
    "div": _inexact("{0} / {1}"),
    "div trunc": Operator({"f": "std::trunc({0} / {1})", "iu": "quotient({0}, {1})"}),
    "div floor": Operator({"f": "float_floor_quotient({0}, {1})", "iu": "floor_quotient({0}, {1})"}),
    "fmod": Operator({"f": "fmod_({0}, {1})", "iu": "remainder_of({0}, {1})"}),
    "remainder": Operator({"f": "float_modulus({0}, {1})", "iu": "modulus({0}, {1})"}),
    "pow": Operator({"f": "pow_({0}, {1})", "iuc": "power({0}, {1})"}),
    "nextafter": _floating("std::nextafter({0}, {1})"),
    "xlogy": _floating("xlogy({0}, {1})"),
    "lgamma": _floating("lgamma_({0})"),
    "atan2": _floating("atan2_({0}, {1})"),
    "maximum": Operator({"iuf": "maximum({0}, {1})", "b": "{0} | {1}"}),
    "minimum": Operator({"iuf": "minimum({0}, {1})", "b": "{0} & {1}"}),
    "bitwise_and": _bitwise("&"),
    "bitwise_or": _bitwise("|"),
    "bitwise_xor": _bitwise("^"),
    "logical_and": _logical("{0} & {1}"),
    "logical_or": _logical("{0} | {1}"),
    "logical_xor": _logical("{0} ^ {1}"),
    "__lshift__": _SHIFT_LEFT,
    "__rshift__": _SHIFT_RIGHT,
    "bitwise_left_shift": _SHIFT_LEFT,
    "bitwise_right_shift": _SHIFT_RIGHT,
    "eq": _comparison("==", "biufcw"),
    "ne": _comparison("!=", "biufcw"),
    "lt": _comparison("<"),
    "le": _comparison("<="),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "isnan": Operator({"fc": "is_nan({0})", "biu": "false"}, of_operands=True),
    "isinf": Operator({"f": "std::isinf({0})", "biu": "false"}, of_operands=True),
    "signbit": Operator({"f": "std::signbit({0})", "iu": "{0} < 0", "b": "false"}, of_operands=True),
    "tanh_backward": _inexact("tanh_backward({0}, {1})"),
    "sigmoid_backward": _inexact("sigmoid_backward({0}, {1})"),
}

# Primitives that are one operation of C++ (`Primitive.is_instruction`).
INSTRUCTIONS = {"fma": _floating("std::fma({0}, {1}, {2})"), "sqrt": _floating("std::sqrt({0})")}


@dataclass(frozen=True)
class Reduction:
    """An operator that folds a two-place one over elements: its start by kinds, and the operator's name."""

    starts: Mapping[str, str]
    step: str

    def start(self, dtype: torch.dtype) -> str | None:
        """Return the value of no elements, or None where the reduction is not for this dtype."""
        return next((start for kinds, start in self.starts.items() if kind_of(dtype) in kinds), None)


_LEAST, _GREATEST = "std::numeric_limits<{T}>::lowest()", "std::numeric_limits<{T}>::max()"

REDUCTIONS = {
    "sum": Reduction({"iufc": "0"}, "add"),
    "prod": Reduction({"iufc": "1"}, "mul"),
    "mean": Reduction({"fc": "0"}, "add"),
    "amax": Reduction({"f": "-({T})Inf", "iu": _LEAST, "b": "false"}, "maximum"),
    "amin": Reduction({"f": "({T})Inf", "iu": _GREATEST, "b": "true"}, "minimum"),
    "any": Reduction({"b": "false"}, "logical_or"),
    "all": Reduction({"b": "true"}, "logical_and"),
}
