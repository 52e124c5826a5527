"""Statements over arrays that a function has several times, up to names: written out once, and called.

A sampler computes the same logarithm a dozen times, of arrays that are other ones each time. Of 1,000 samples of a beta distribution
580 of 660 such statements are like another one, and GCC takes 0.9 s in place of 3.4 s without these; for ten, whose loops it
unrolls, 1 s in place of 7 s. Of arrays in memory nothing is lost: each loop is compiled by itself in any case.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from .loop_operators import C_TYPES

# Characters that repetitions take together. Fewer cost the compiler some tenths of a second. Arrays of few elements are kept in
# registers where nothing is called: what takes 0.05 ms took 0.15 ms, so it is for functions that take seconds.
_FEW = 64
_LEAST_REPEATED, _LEAST_OF_FEW = 10_000, 100_000
_KINDS = "|".join(map(re.escape, {*C_TYPES.values(), "int"}))
_DECLARED = re.compile(
    rf"(?:const )?(?P<kind>{_KINDS})(?P<pointer>\* __restrict__(?: const)?)? (?P<name>\w+)(?P<array>\[\d*\])?(?: = .*)?;"
)
_LAMBDA = r"\{ return [^;{]*; \}"  # of a fold, whose parameters are a, b and r
_LOOPS = re.compile(
    r'(?:(?:_Pragma\("[^"]*"\) )?for \(int i\d+ = [^;{]*; [^;{]*; (?:one_by_one\(\), )?\+\+i\d+\) )+'
    rf"(?P<target>\w+)\[(?:[^;{{]|{_LAMBDA})*;"
)
_BOUNDS = re.compile(r"for \(int i\d+ = (\d+); i\d+ < (\d+); ")
# What is no function, type or number: a variable. Its name is that of nothing else in the function, but for those that count.
_VARIABLE = re.compile(r"(?<![\w.])(?!i\d+\b)[A-Za-z_]\w*(?![\w(<:])")
_WORDS = {*re.findall(r"\w+", f"{_KINDS} for true false NaN Inf GCC unroll ivdep EACH return a b r")}


class _Statement:
    """A statement over arrays: its text with its variables numbered, and these."""

    def __init__(self, text: str, target: str, kinds: dict[str, str]) -> None:
        numbered: dict[str, str] = {}

        def renamed(found: re.Match[str]) -> str:
            return numbered.setdefault(found[0], f"p{len(numbered)}") if found[0] in kinds else found[0]

        self.text = _VARIABLE.sub(renamed, text)
        self.variables = list(numbered)
        self.elements = math.prod(int(end) - int(first) for first, end in _BOUNDS.findall(text))
        parameters = [
            f"{'const ' if '*' in kinds[v] and v != target else ''}{kinds[v]} {p}" for v, p in numbered.items()
        ]
        self.function = f"({', '.join(parameters)}) __attribute__((noinline)) {{ {self.text} }};"


def written_once(declared: Sequence[str], lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return functions for the statements that are there several times, and all statements, those as calls of them.

    Of what comes before the loop, `declared`, and within it, `lines`, the latter are looked at.
    """
    lines = list(lines)
    kinds = _kinds([*declared, *lines])
    found = {number: s for number, line in enumerate(lines) if (s := _statement(line, kinds)) is not None}
    few, many = (Counter(s.function for s in found.values() if (s.elements < _FEW) is own) for own in (True, False))
    counts = _if_long(many, _LEAST_REPEATED) + _if_long(few, _LEAST_OF_FEW)
    names = {f: f"repeated_{i}" for i, f in enumerate(f for f, count in counts.items() if count > 1)}
    for number, statement in found.items():
        if name := names.get(statement.function):
            lines[number] = f"{name}({', '.join(statement.variables)});"
    return [f"const auto {name} = []{function}" for function, name in names.items()], lines


def _if_long(counts: Counter[str], least: int) -> Counter[str]:
    """Return how often functions are called, or none where the repetitions are no longer than that together."""
    repeated = sum((count - 1) * len(function) for function, count in counts.items())
    return counts if repeated >= least else Counter()


def _kinds(lines: Iterable[str]) -> dict[str, str]:
    """Return the types of variables, by their names: arrays and pointers are pointers to what nothing else is at."""
    declared = filter(None, map(_DECLARED.fullmatch, lines))
    return {d["name"]: d["kind"] + ("* __restrict__" if d["pointer"] or d["array"] else "") for d in declared}


def _statement(line: str, kinds: dict[str, str]) -> _Statement | None:
    """Return a statement that is nothing but loops over elements of arrays, all variables of which have types."""
    loops = _LOOPS.fullmatch(line)
    if loops is None or not {*_VARIABLE.findall(line)} - _WORDS <= kinds.keys():
        return None
    return _Statement(line, loops["target"], kinds)
