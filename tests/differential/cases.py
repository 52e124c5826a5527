"""The operations that the harness draws from, as Python text of operands {0}, {1}, {2}, and the dtypes they are for.

Texts are evaluated with j (jax or jaxish), jnp, lax and nn in sight, so that a program that fails prints as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint32")
FLOATING = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS = {"b": ("bool",), "i": SIGNED, "u": UNSIGNED, "f": FLOATING, "c": COMPLEX}
DTYPES = ("bool", *SIGNED, *UNSIGNED, *FLOATING, *COMPLEX)


def kind_of(dtype: str) -> str:
    """Return the letter of a dtype's kind."""
    return next(kind for kind, dtypes in KINDS.items() if dtype in dtypes)


@dataclass(frozen=True)
class Case:
    """An operation: its text, the kinds of its operands t, the types of operands and result (t, b or a dtype).

    `exact` operations are rounded correctly by every tier, so that drawn programs may go on with what they give.
    """

    text: str
    kinds: str
    operands: str
    result: str = "t"
    exact: bool = True

    def is_for(self, dtype: str) -> bool:
        """Tell whether operands t may be of this dtype."""
        return kind_of(dtype) in self.kinds

    def result_dtype(self, dtype: str) -> str:
        """Return the dtype of the result for operands t of `dtype`."""
        return {"t": dtype, "b": "bool"}.get(self.result, self.result)


def _cases(kinds: str, operands: str, texts: Sequence[str], result: str = "t", exact: bool = True) -> list[Case]:
    return [Case(text, kinds, operands, result, exact) for text in texts]


CASES = [
    *_cases("iuf", "tt", ["{0} + {1}", "{0} - {1}", "{0} * {1}"]),
    *_cases("iu", "tt", ["{0} // {1}", "{0} % {1}", "lax.rem({0}, {1})"]),
    *_cases("f", "tt", ["{0} // {1}", "{0} % {1}", "lax.rem({0}, {1})", "jnp.fmod({0}, {1})"], exact=False),
    *_cases("b", "tt", ["{0} + {1}", "{0} * {1}"]),
    *_cases("f", "tt", ["{0} / {1}", "lax.div({0}, {1})"]),
    *_cases("f", "tt", ["jnp.copysign({0}, {1})"], exact=False),
    *_cases("iu", "tt", ["lax.div({0}, {1})", "jnp.fmod({0}, {1})", "{0} ** abs({1} % 11)"]),
    *_cases("iu", "tt", ["lax.shift_left({0}, {1})", "lax.shift_right_arithmetic({0}, {1})"]),
    *_cases("iu", "tt", ["lax.shift_right_logical({0}, {1})", "{0} << {1}", "{0} >> {1}"]),
    *_cases("iu", "t", ["{0} << 3", "{0} >> 1", "{0} >> 7", "{0} & 21", "{0} | 3", "{0} ^ 5", "{0} // 3", "{0} % 7"]),
    *_cases("biu", "tt", ["{0} & {1}", "{0} | {1}", "{0} ^ {1}"]),
    *_cases("biu", "t", ["~{0}"]),
    *_cases("iu", "t", ["lax.population_count({0})", "lax.clz({0})"], exact=False),
    *_cases("iuf", "t", ["-{0}", "abs({0})", "jnp.sign({0})", "jnp.square({0})", "{0} ** 2", "{0} ** 3", "{0} * 3"]),
    *_cases("iuf", "t", ["2 - {0}", "{0} + 1", "nn.relu({0})", "lax.integer_pow({0}, 5)", "jnp.zeros_like({0}) + 1"]),
    *_cases("biuf", "tt", ["jnp.maximum({0}, {1})", "jnp.minimum({0}, {1})"]),
    *_cases("biuf", "btt", ["jnp.where({0}, {1}, {2})", "jnp.where(~{0}, {1}, {2})", "lax.select({0}, {1}, {2})"]),
    *_cases("iuf", "ttt", ["jnp.clip({0}, {1}, {2})", "lax.clamp({1}, {0}, {2})"]),
    *_cases("iuf", "t", ["jnp.clip({0}, 1, 5)"]),
    *_cases("biuf", "tt", [f"{{0}} {s} {{1}}" for s in ("==", "!=", "<", "<=", ">", ">=")], "b"),
    *_cases("iuf", "t", ["{0} > 2", "{0} == 0", "1 <= {0}"], "b"),
    *_cases("biuf", "t", ["jnp.logical_not({0})", "{0}.astype(bool)"], "b"),
    *_cases("biuf", "tt", [f"jnp.logical_{n}({{0}}, {{1}})" for n in ("and", "or", "xor")], "b"),
    *_cases("f", "t", ["jnp.isnan({0})", "jnp.isinf({0})", "jnp.isfinite({0})", "jnp.signbit({0})"], "b"),
    *(
        c
        for dtype in DTYPES
        for c in _cases("biuf", "t", [f"{{0}}.astype('{dtype}')"], dtype, dtype not in FLOATING + COMPLEX)
    ),
    *_cases("f", "t", ["jnp.floor({0})", "jnp.ceil({0})", "jnp.trunc({0})", "jnp.round({0})", "lax.round({0})"]),
    *_cases("f", "t", ["jnp.sqrt({0})", "1 / {0}", "lax.sign({0})", "{0} / 3", "jnp.nan_to_num({0})"]),
    *_cases(
        "f", "t", [f"jnp.{n}({{0}})" for n in ("sin", "cos", "tan", "tanh", "arctan", "sinh", "cosh")], exact=False
    ),
    *_cases("f", "t", [f"jnp.{n}({{0}})" for n in ("arcsin", "arccos", "arcsinh", "arccosh", "arctanh")], exact=False),
    *_cases(
        "f", "t", [f"jnp.{n}({{0}})" for n in ("exp", "expm1", "log", "log1p", "log2", "log10", "exp2")], exact=False
    ),
    *_cases(
        "f", "t", ["lax.erf({0})", "lax.erfc({0})", "lax.rsqrt({0})", "nn.sigmoid({0})", "lax.cbrt({0})"], exact=False
    ),
    *_cases(
        "f",
        "t",
        ["nn.softplus({0})", "nn.silu({0})", "nn.gelu({0})", "nn.elu({0})", "nn.relu6({0})", "nn.sparse_sigmoid({0})"],
        exact=False,
    ),
    *_cases("f", "t", ["{0} ** 0.5", "{0} ** -1", "{0} ** -2", "{0} ** 1.5", "2.0 ** {0}"], exact=False),
    *_cases("f", "t", ["j.grad(nn.sigmoid)({0})", "j.grad(jnp.abs)({0})"], exact=False),
    *_cases(
        "f",
        "tt",
        ["{0} ** {1}", "jnp.arctan2({0}, {1})", "jnp.hypot({0}, {1})", "jnp.logaddexp({0}, {1})"],
        exact=False,
    ),
    *_cases("f", "tt", ["lax.nextafter({0}, {1})"]),
    *_cases("f", "tt", ["jnp.logaddexp2({0}, {1})", "jnp.ldexp({0}, jnp.sign({1}).astype('int32'))"], exact=False),
    *_cases("f", "t", ["lax.lgamma(abs({0}) + 1)", "lax.digamma(abs({0}) + 1)"], exact=False),
]

# The same of parts of arrays: operands a and b are stacked, so that results are numbers again.
_PAIR, _SQUARE = "jnp.stack([a, b])", "jnp.stack([a, b, b, a]).reshape(2, 2)"
_PLACE = "(a > b).astype('int32')"
_COLUMN = "jnp.concatenate([jnp.reshape(a, (1,)), jnp.reshape(b, (1,))])"


def _parts(kinds: str, texts: Sequence[str], result: str = "t", exact: bool = True) -> list[Case]:
    return _cases(kinds, "tt", [f"(lambda a, b: {text})({{0}}, {{1}})" for text in texts], result, exact)


CASES += [
    *_parts("iuf", [f"{_PAIR}.sum(dtype=a.dtype)", f"{_PAIR}.prod(dtype=a.dtype)"]),
    *_parts("biu", [f"{_PAIR}.sum().astype(a.dtype)", f"{_PAIR}.prod().astype(a.dtype)"]),
    *_parts("biuf", [f"{_PAIR}.max()", f"{_PAIR}.min()"]),
    *_parts("biuf", [f"{_PAIR}.any()", f"{_PAIR}.all()"], "b"),
    *_parts("f", [f"{_PAIR}.mean()", f"{_PAIR}.var()", f"j.nn.logsumexp({_PAIR})"], exact=False),
    *_parts("biu", [f"{_PAIR}.mean()"], "float", exact=False),
    *_parts("biuf", [f"{_PAIR}[1]", f"{_PAIR}[::-1][0]", f"{_SQUARE}.T[1, 0]", f"{_COLUMN}[1]"]),
    *_parts("biuf", [f"jnp.split({_PAIR}, 2)[1][0]", f"jnp.squeeze({_COLUMN}[:1])", f"{_PAIR}.at[0].set(b)[0]"]),
    *_parts("iuf", [f"{_PAIR}[:0].sum(dtype=a.dtype)", f"jnp.concatenate([{_PAIR}[:0], {_PAIR}])[0]"]),
    *_parts("iuf", [f"({_SQUARE} @ {_PAIR})[1]", f"({_SQUARE} @ {_SQUARE})[0, 1]"], exact=False),
    *_parts(
        "iuf", [f"jnp.dot({_PAIR}, {_PAIR})", f"jnp.outer({_PAIR}, {_PAIR}).sum(1, dtype=a.dtype)[0]"], exact=False
    ),
    *_parts("iuf", [f"jnp.cumsum({_PAIR}, dtype=a.dtype)[1]", f"jnp.cumprod({_PAIR}, dtype=a.dtype)[1]"], exact=False),
    *_parts("iuf", [f"jnp.tril({_SQUARE})[0, 1]", f"lax.cummax({_PAIR})[1]", f"lax.cummin({_PAIR})[1]"]),
    *_parts("iuf", [f"jnp.sort({_PAIR})[0]"]),
    *_parts(
        "iuf", [f"({_PAIR} * jnp.arange(2, dtype=a.dtype))[1]", f"jnp.full_like({_PAIR}, 2)[0] + jnp.ones_like(a)"]
    ),
    *_parts(
        "iuf",
        [f"(jnp.pad({_PAIR}, (1, 2), constant_values=3) + jnp.tile(b, 5))[2]", f"jnp.diag(jnp.diag({_SQUARE}))[1, 1]"],
    ),
    *_parts("iuf", [f"jnp.tile({_PAIR}, 3)[3]", f"(jnp.eye(2, dtype=a.dtype) + {_SQUARE})[0, 0]"]),
    *_parts("f", [f"jnp.linalg.solve({_SQUARE} + 9 * jnp.eye(2, dtype=a.dtype), {_PAIR})[0]"], exact=False),
    *_parts("f", [f"j.grad(lambda a: ({_SQUARE} @ {_SQUARE} @ {_PAIR})[0])(a)"], exact=False),
    *_parts("f", [f"j.grad(lambda a: (jnp.swapaxes({_SQUARE}, 0, 1)[1] * {_PAIR}[::-1])[jnp.array([0, 1])].sum())(a)"]),
    *_parts(
        "f",
        [
            f"j.grad(lambda a: ({_PAIR}[1:] * {_PAIR}[:1]).sum() + {_PAIR}[0])(a)",
            "j.grad(lambda a: (jnp.stack([b, a, b, a])[1::2] * b)[1])(a)",
        ],
        exact=False,
    ),
    *_parts(
        "biuf",
        [
            f"{_PAIR}[{_PLACE}]",
            f"{_SQUARE}[1, {_PLACE}]",
            f"{_PAIR}[3 * {_PLACE} - 1]",
            f"jnp.take({_PAIR}, {_PLACE})",
            f"lax.dynamic_slice({_PAIR}, ({_PLACE},), (1,))[0]",
            f"{_PAIR}.at[{_PLACE}].set(a)[0]",
            f"{_SQUARE}.at[:, {_PLACE}].set(b)[0, 1]",
            f"{_PAIR}.at[5 * {_PLACE}].set(a)[1]",
            f"jnp.take_along_axis({_SQUARE}, jnp.full((2, 2), {_PLACE}), 0)[0, 1]",
            f"lax.dynamic_update_slice({_SQUARE}, {_SQUARE}[:1, :1], ({_PLACE} * 0, {_PLACE}))[1, 1]",
        ],
    ),
    *_parts("iuf", [f"{_PAIR}.at[{_PLACE}].add(b)[1]", f"{_SQUARE}.at[0, {_PLACE}].add(b)[0, 1]"]),
    *_parts("biuf", [f"jnp.argmax({_PAIR})", f"jnp.argmin({_PAIR})"], "int"),
    *_parts("f", [f"j.nn.softmax({_PAIR})[1]", f"j.nn.log_softmax({_PAIR})[1]"], exact=False),
    *_parts("f", [f"lax.cumlogsumexp({_PAIR})[1]", f"lax.cumlogsumexp({_SQUARE}, 1, reverse=True)[1, 0]"], exact=False),
    *_parts("f", [f"lax.batch_matmul({_SQUARE}[None], {_SQUARE}[None])[0, 0, 1] + 1"], exact=False),
    *_parts("f", [f"jnp.convolve({_PAIR}, {_PAIR})[1]", f"(jnp.roll({_PAIR}, 1) - {_PAIR})[0]"], exact=False),
    *_parts("iuf", [f"jnp.sort({_PAIR})[1]", f"jnp.sort({_SQUARE}, 0, descending=True)[0, 1]"]),
    *_parts("iuf", [f"{_PAIR}.at[{_PLACE}].min(b)[1]", f"{_SQUARE}.at[0, 1].max(a)[0, 1]"]),
    *_parts("iuf", [f"lax.top_k({_PAIR}, 1)[0][0]"]),
    *_parts("iu", [f"jnp.unique({_PAIR}, return_inverse=True, size=2)[1][0].astype(a.dtype)"]),
    *_parts("biuf", [f"jnp.argsort({_PAIR})[0].astype('int32')"], "int32"),
    *_parts("biuf", [f"lax.pad({_SQUARE}, a, ((1, -1, 0), (0, 0, 0)))[1, 1]"]),
    *_parts("f", [f"j.grad(lambda a: jnp.diagonal({_SQUARE} * {_SQUARE}).sum())(a)"], exact=False),
    *_parts("f", [f"j.grad(lambda a: jnp.convolve({_PAIR}, {_PAIR})[1])(a)"], exact=False),
    *_parts("f", ["nn.hard_tanh(a) + 0 * b", "nn.hard_sigmoid(a)"], exact=False),
    *_parts(
        "f",
        [
            f"jnp.linalg.{f}(jnp.stack([1 / (1 + a * a), 0.3 / (1 + b * b), 0.3 / (1 + b * b), a * 0 + 2]).reshape(2, 2)){part}"
            for f, part in (("cholesky", "[1, 0]"), ("inv", "[0, 1]"))
        ],
        exact=False,
    ),
    *_parts("iuf", [f"jnp.triu({_SQUARE})[1, 0]", f"jnp.cumsum({_SQUARE}, 1, dtype=a.dtype)[1, 1]"], exact=False),
]

_CUBE = f"lax.reduce_window({_SQUARE}[..., None] * 2, {{}}, (2, 2, 1), (1, 1, 2), 'SAME')[0, 1, 0]"
_SUM, _MOST = "0.0, lax.add", "-jnp.inf, lax.max"
CASES += [
    *_parts("f", [f"lax.reduce_window({_PAIR}, {_MOST}, (2,), (1,), 'SAME')[0]", _CUBE.format(_MOST)]),
    *_parts("f", [f"lax.reduce_window({_PAIR}, {_SUM}, (2,), (1,), 'SAME')[0]", _CUBE.format(_SUM)], exact=False),
    *_parts(
        "f",
        [
            f"j.grad(lambda a: lax.reduce_window({_PAIR} * b, {_SUM}, (2,), (1,), 'SAME')[0])(a)",
            f"j.grad(lambda a: ({_CUBE.format(_SUM)}))(a)",
        ],
        exact=False,
    ),
]

CASES += _parts("f", [f"jnp.fft.irfft(jnp.fft.rfft({_PAIR}) * 2)[1]"], exact=False)

# Complex numbers. Programs that are drawn go on with what is one operation of their parts.
CASES += [
    *_cases("c", "tt", ["{0} + {1}", "{0} - {1}", "jnp.where({0} == {1}, {0}, {1})"]),
    *_cases(
        "c",
        "t",
        ["-{0}", "jnp.conj({0})", "lax.complex({0}.imag, {0}.real)", "{0} + 1", "2 - {0}", "jnp.zeros_like({0})"],
    ),
    *_cases("c", "btt", ["jnp.where({0}, {1}, {2})", "lax.select({0}, {1}, {2})"]),
    *_cases("c", "tt", ["{0} == {1}", "{0} != {1}"], "b"),
    *_cases("c", "t", ["jnp.isnan({0})", "jnp.isfinite({0})", "jnp.isinf({0})", "{0}.astype(bool)", "{0} == 0"], "b"),
    *_cases("c", "tt", ["{0} * {1}", "{0} / {1}", "{0} * {1}.real", "{0} * jnp.conj({1})"], exact=False),
    *_cases(
        "c",
        "t",
        ["1 / {0}", "{0} * 2j + (1 - 2j)", "jnp.square({0})", "{0} ** 3", "{0} ** -2", "lax.integer_pow({0}, 5)"],
        exact=False,
    ),
    *_cases(
        "c",
        "t",
        ["abs({0}) + 0j", "jnp.angle({0}) + 0j", "jnp.sign({0})", "lax.rsqrt({0})", "nn.sigmoid({0})"],
        exact=False,
    ),
    *_cases(
        "c",
        "t",
        [f"jnp.{n}({{0}})" for n in ("sin", "cos", "tan", "tanh", "sinh", "cosh", "exp", "expm1", "exp2")],
        exact=False,
    ),
    *_cases(
        "c",
        "t",
        [f"jnp.{n}({{0}})" for n in ("log", "log1p", "log2", "log10", "sqrt", "arcsinh", "arctan", "arccos")],
        exact=False,
    ),
    *_cases("c", "t", ["{0} ** 0.5", "{0} ** (1 + 1j)"], exact=False),
    *_cases(
        "c",
        "t",
        [f"j.grad(lambda z: ({text}).sum())({{0}})" for text in ("abs(z) ** 2", "jnp.tanh(z).real", "jnp.exp(z).imag")],
        exact=False,
    ),
    *_parts(
        "c", [f"jnp.fft.fft({_PAIR})[1]", f"jnp.fft.ifft({_PAIR})[1]", f"jnp.fft.fftn({_SQUARE})[1, 0]"], exact=False
    ),
    *_parts(
        "c",
        [f"{_PAIR}.sum()", f"{_PAIR}.mean()", f"{_PAIR}.prod()", f"jnp.cumsum({_PAIR})[1]", f"jnp.cumprod({_PAIR})[1]"],
        exact=False,
    ),
    *_parts(
        "c", [f"({_SQUARE} @ {_PAIR})[1]", f"({_SQUARE} @ {_SQUARE})[0, 1]", f"jnp.vdot({_PAIR}, {_PAIR})"], exact=False
    ),
    *_parts(
        "c",
        [
            f"{_PAIR}[1]",
            f"{_PAIR}[::-1][0]",
            f"{_SQUARE}.T.conj()[1, 0]",
            f"{_PAIR}.at[0].set(b)[0]",
            f"jnp.tril({_SQUARE})[0, 1]",
        ],
    ),
    *_parts(
        "c",
        [
            f"{_PAIR}[(a == b).astype('int32')]",
            f"{_PAIR}.at[(a == b).astype('int32')].add(b)[1]",
            f"jnp.pad({_PAIR}, 1)[2]",
        ],
    ),
    *_parts("c", [f"j.grad(lambda a: ({_SQUARE} @ {_SQUARE} @ {_PAIR})[0].real)(a)"], exact=False),
]
