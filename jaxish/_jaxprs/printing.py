"""Jaxprs as text, laid out as JAX does it.

A group is on one line where it fits, else each of its parts is on a line of its own; the layout is Wadler's and
Lindig's, by the library of that name. Equations, jaxprs and variables are looked at by their attributes only: what
defines them (`ir`) prints itself by this module.
"""

import itertools
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from wadler_lindig import AbstractDoc, BreakDoc, ConcatDoc, TextDoc, join, pformat

_WIDTH = 80
_LONG = 10  # equations; a longer jaxpr within another is printed in front of it, under a name


class _Text:
    """One printing: the names given to variables, and to jaxprs that are printed in front."""

    def __init__(self, print_shapes: bool, shortens: bool, print_effects: bool) -> None:
        self.print_shapes, self.shortens, self.print_effects = print_shapes, shortens, print_effects
        self.names: dict[Any, str] = {}
        self.shared: dict[Any, str] = {}
        self._fresh = (name for name in _letters() if name not in self.shared.values())

    def name(self, variable: Any) -> str:
        if variable not in self.names:
            self.names[variable] = next(self._fresh)
        return self.names[variable]

    def atom(self, atom: Any) -> str:
        return atom.text if hasattr(atom, "val") else self.name(atom)

    def atoms(self, atoms: Sequence[Any], separator: str = "") -> AbstractDoc:
        return (
            _joined(TextDoc(separator) + BreakDoc(" ").group(), [TextDoc(self.atom(a)) for a in atoms]).group().nest(2)
        )

    def binders(self, variables: Sequence[Any]) -> AbstractDoc:
        if not self.print_shapes:
            return self.atoms(variables)
        texts = [TextDoc(f"{self.name(v)}:{v.aval.str_short(short_dtypes=True)}") for v in variables]
        return _joined(BreakDoc(" ").group(), texts).group().nest(2)

    def parameter(self, name: str, value: Any) -> AbstractDoc:
        if isinstance(value, tuple) and all(map(_is_jaxpr, value)):
            inner = _joined(BreakDoc(" "), [self.jaxpr(getattr(v, "jaxpr", v)) for v in value])
            shown = (((TextDoc("(") + BreakDoc("") + inner).nest(2)) + BreakDoc("") + TextDoc(")")).group()
        elif _is_jaxpr(value):
            shown = self.jaxpr(getattr(value, "jaxpr", value))
        elif isinstance(value, frozenset):
            shown = TextDoc(f"frozenset({{{', '.join(map(repr, sorted(value)))}}})")
        else:
            shown = TextDoc(re.sub(r" at 0x([0-9a-fA-F]+)", lambda m: " at 0x" + "X" * len(m[1]), str(value)))
        return TextDoc(f"{name}=") + shown

    def equation(self, eqn: Any) -> AbstractDoc:
        left = self.binders(eqn.outvars)
        params = sorted(eqn.params.items())
        if self.shortens:
            params = _shortened(eqn)
            if eqn.primitive.name == "jit" and eqn.params["jaxpr"].jaxpr not in self.shared:
                self._suggest(eqn.params["jaxpr"].jaxpr.invars, eqn.invars)
                self._suggest(eqn.params["jaxpr"].jaxpr.outvars, eqn.outvars)
        right = TextDoc(eqn.primitive.name)
        if params:
            listed = _joined(BreakDoc(" "), [self.parameter(*param) for param in params])
            right += ((TextDoc("[") + BreakDoc("") + listed).nest(2) + BreakDoc("") + TextDoc("]")).group()
        right += TextDoc(" ") + self.atoms(eqn.invars)
        return left + TextDoc(" = ") + right if eqn.outvars else right

    def _suggest(self, variables: Sequence[Any], like: Sequence[Any]) -> None:
        """Name variables of a jitted function like those outside that they stand for."""
        used = set()
        for variable, other in zip(variables, like, strict=True):
            literal = hasattr(variable, "val") or hasattr(other, "val")
            if not literal and other not in used and variable not in self.names:
                used.add(other)
                self.names[variable] = self.name(other)

    def jaxpr(self, jaxpr: Any) -> AbstractDoc:
        return TextDoc(self.shared[jaxpr]) if jaxpr in self.shared else self.skeleton(jaxpr)

    def skeleton(self, jaxpr: Any) -> AbstractDoc:
        constants, inputs = self.binders(jaxpr.constvars), self.binders(jaxpr.invars)
        equations = [self.equation(e) for e in jaxpr.eqns]
        outputs = self.atoms(jaxpr.outvars, ",") + TextDoc(",)" if len(jaxpr.outvars) == 1 else ")")
        if self.print_effects:
            outputs += TextDoc(f" : {{ {', '.join(map(str, jaxpr.effects))} }}")
        head = [TextDoc("{ lambda "), constants, TextDoc("; "), inputs, TextDoc(". let")]
        body = (BreakDoc(" ") + _joined(BreakDoc("; "), equations)).nest(2)
        tail = [BreakDoc(" "), TextDoc("in ("), outputs]
        return (ConcatDoc(*head, body, *tail).nest(2) + TextDoc(" }")).group()

    def share(self, top: Any) -> list[AbstractDoc]:
        """Give names to the jaxprs that are used more than once, or are long, and return their texts."""
        uses, names = Counter(), {}
        to_do = [top]
        while to_do:
            jaxpr = to_do.pop(0)
            uses[jaxpr] += 1 + (jaxpr is not top and len(jaxpr.eqns) > _LONG)
            for eqn in jaxpr.eqns:
                inner = list(_inner(eqn.params))
                to_do += inner
                if isinstance(name := eqn.params.get("name"), str):
                    for found in inner:
                        names.setdefault(found, name.strip("<>"))
        counts = Counter()
        for jaxpr in (j for j, n in uses.items() if n > 1):
            name = names.get(jaxpr, "jaxpr")
            counts[name] += 1
            self.shared[jaxpr] = name if counts[name] == 1 else f"{name}{counts[name] - 1}"
        ends = TextDoc(" in") + BreakDoc(" ")
        return [TextDoc(f"let {name} = ") + self.skeleton(jaxpr) + ends for jaxpr, name in self.shared.items()]


def jaxpr_text(
    jaxpr: Any, print_shapes: bool = True, shortens: bool = True, print_effects: bool = False, width: int = _WIDTH
) -> str:
    """Return the text of a jaxpr. `shortens` leaves out parameters that say nothing."""
    text = _Text(print_shapes, shortens, print_effects)
    text.names.update(dict.fromkeys(_never_read(jaxpr), "_"))
    return _laid_out(ConcatDoc(*text.share(jaxpr), text.jaxpr(jaxpr)), width)


def equation_text(eqn: Any) -> str:
    """Return the text of one equation."""
    return _laid_out(_Text(True, True, False).equation(eqn), _WIDTH).rstrip()


def _joined(separator: AbstractDoc, parts: Sequence[AbstractDoc]) -> AbstractDoc:
    return join(separator, parts) if parts else TextDoc("")


def _laid_out(document: AbstractDoc, width: int) -> str:
    return pformat(None, width=width, custom=lambda _: document)


def _letters() -> Iterator[str]:
    """Yield a, b, ..., z, ba, bb, ...: numbers in base 26."""
    for number in itertools.count():
        digits = string.ascii_lowercase[number % 26]
        while number := number // 26:
            digits = string.ascii_lowercase[number % 26] + digits
        yield digits


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns")


def _inner(params: Mapping[str, Any]) -> Iterable[Any]:
    for value in params.values():
        for v in value if isinstance(value, tuple) else (value,):
            if _is_jaxpr(v):
                yield getattr(v, "jaxpr", v)


def _never_read(jaxpr: Any) -> Iterator[Any]:
    read = {id(a) for e in jaxpr.eqns for a in e.invars} | {id(a) for a in jaxpr.outvars}
    for eqn in jaxpr.eqns:
        yield from (v for v in eqn.outvars if id(v) not in read)
        for inner in _inner(eqn.params):
            yield from _never_read(inner)


# ---------------------------------------------------------------------------- what is left out of an equation's text

_NOTHING = (None, False, 0)  # a count of constants, too


def _without(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k not in names}


def _without_empty(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k not in names or not _is_nothing(v)}


def _is_nothing(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(v is None or v is False for v in value)
    return value in _NOTHING


def _of_product(params: dict[str, Any]) -> dict[str, Any]:
    contracted, batch = params["dimension_numbers"]
    shown = {k: v for k, v in params.items() if v is not None and k != "out_sharding"}
    return {**shown, "dimension_numbers": (tuple(map(list, contracted)), tuple(map(list, batch)))}


def _of_call(params: dict[str, Any]) -> dict[str, Any]:
    options = (
        "donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts", "keep_unused", "ctx_mesh",
        "compiler_options_kvs",
    )  # fmt: skip
    return _without_empty(_without(params, "inline"), *options)


def _of_custom(params: dict[str, Any]) -> dict[str, Any]:
    shown = _without_empty(_without(params, "out_trees"), "num_consts")
    for name, short in (("jvp_jaxpr_fun", "jvp"), ("fwd_jaxpr_thunk", "fwd"), ("bwd", "bwd")):
        if name in shown:
            shown[short] = getattr(shown.pop(name), "__name__", short)
    return {"name": params["call_jaxpr"].jaxpr.debug_info.func_name, **dict(sorted(shown.items()))}


_SHORTENED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "dot_general": _of_product,
    "jit": _of_call,
    "custom_jvp_call": _of_custom,
    "custom_vjp_call": _of_custom,
    "convert_element_type": lambda params: _without(params, "sharding"),
    "broadcast_in_dim": lambda params: _without_empty(_without(params, "shape", "sharding"), "broadcast_dimensions"),
    "mul": lambda params: _without_empty(params, "out_dtype"),
}
_WITH_ACCURACY = [
    "exp",
    "exp2",
    "log",
    "expm1",
    "log1p",
    "tanh",
    "logistic",
    "sin",
    "cos",
    "tan",
    "sqrt",
    "rsqrt",
    "cbrt",
]
_SHORTENED |= dict.fromkeys(_WITH_ACCURACY, lambda params: _without_empty(params, "accuracy"))
_NAMED = {"jit", "custom_jvp_call", "custom_vjp_call"}  # with their name in front


def _shortened(eqn: Any) -> list[tuple[str, Any]]:
    shorten = _SHORTENED.get(eqn.primitive.name)
    params = dict(sorted((shorten(eqn.params) if shorten else eqn.params).items()))
    if eqn.primitive.name in _NAMED:
        params = {"name": params.pop("name"), **params}
    return list(params.items())
