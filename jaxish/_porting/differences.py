"""The table of differences from JAX (`differences.toml`), and which of them a use is about."""

import ast
import functools
import importlib.resources
import inspect
import re
import tomllib
import types
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from .._core.foreign_options import FIXED, INERT
from .names import HANDED_ON, UNKNOWN, Argument
from .served import default, served

SECTIONS = ("unsupported", "behaviour", "values")


class Difference(NamedTuple):
    """An entry of the table: what is otherwise, and for what is not supported what to do instead."""

    section: str
    text: str
    instead: str
    names: tuple[str, ...]
    refused: tuple[str, ...]


class Match(NamedTuple):
    """A difference that a use is about, and whether it is one that raises."""

    difference: Difference
    is_refused: bool


@functools.cache
def table() -> dict[str, Any]:
    """Return the table as it is written."""
    return tomllib.loads(importlib.resources.files("jaxish._porting").joinpath("differences.toml").read_text("utf-8"))


@functools.cache
def differences() -> list[Difference]:
    """Return the entries of the table, in their order."""
    return [_difference(section, entry) for section in SECTIONS for entry in table()[section]]


def _difference(section: str, entry: dict[str, Any]) -> Difference:
    names, refused = list(entry.get("names", ())), list(entry.get("refused", ()))
    if "options" in entry:
        options, told = {"fixed": (FIXED, refused), "inert": (INERT, names)}[entry["options"]]
        told += [f"jax.config.update({option}=)" for option in options]
    text = entry["what"] if section == "unsupported" else entry["text"]
    return Difference(section, text, entry.get("instead", ""), tuple(names), tuple(refused))


# ------------------------------------------------------------------------------------------------------------ patterns


class Pattern(NamedTuple):
    """What a name of the table stands for: a name of JAX, or the use of an argument, with any value or with one."""

    path: str
    keyword: str = ""
    value: Any = UNKNOWN


def pattern(name: str) -> Pattern:
    """Read a name of the table: `jax.lax.scan`, `jax.vmap(sum_match=)`, `.lower(lowering_platforms=)`."""
    found = re.fullmatch(r"([\w.*]+)(?:\((\w+)=(.*)\))?", name)
    if found is None:
        raise ValueError(
            f"{name!r} is no name: write jax.lax.scan, jax.vmap(sum_match=) or .lower(lowering_platforms=)"
        )
    path, keyword, value = found.groups("")
    return Pattern(path, keyword, ast.literal_eval(value) if value else UNKNOWN)


@functools.cache
def _patterns() -> tuple[list[tuple[Pattern, Match]], list[tuple[Pattern, Match]]]:
    """Return the names of the table and what they tell: those of names, and those of arguments."""
    every = [
        (pattern(name), Match(difference, is_refused))
        for difference in differences()
        for is_refused, names in ((False, difference.names), (True, difference.refused))
        for name in names
    ]
    return [p for p in every if not p[0].keyword], [p for p in every if p[0].keyword]


def about_name(path: str) -> list[Match]:
    """Return the differences that a name is about, by itself, by what it stands below, or by another path to it."""
    same = _identity(path)
    return _once(
        match
        for wanted, match in _patterns()[0]
        if path == wanted.path
        or path.startswith(f"{wanted.path}.")
        or (same is not None and same == _identity(wanted.path))
    )


def about_argument(path: str, argument: Argument) -> list[Match]:
    """Return the differences that are about an argument of a call: with a value that is not known, it may be one."""
    if not _is_given(default(path, argument.keyword), argument.value):
        return []
    same = _identity(path)
    found = [
        (wanted, match)
        for wanted, match in _patterns()[1]
        if wanted.keyword == argument.keyword
        and (fnmatchcase(path, wanted.path) or (same is not None and same == _identity(wanted.path)))
        and (wanted.value is UNKNOWN or argument.value in (UNKNOWN, HANDED_ON) or argument.value == wanted.value)
    ]
    return _once(match._replace(is_refused=match.is_refused and _is_sure(wanted, argument)) for wanted, match in found)


def _is_given(value: Any, argument: Any) -> bool:
    """Tell whether an argument may be another than the default value."""
    return argument is UNKNOWN or argument is HANDED_ON or value is inspect.Parameter.empty or argument != value


def _is_sure(wanted: Pattern, argument: Argument) -> bool:
    return argument.value is not HANDED_ON and (wanted.value is UNKNOWN or argument.value is not UNKNOWN)


def _once(matches: Iterator[Match]) -> list[Match]:
    return list(dict.fromkeys(matches))


@functools.cache
def _identity(path: str) -> int | None:
    """Return what tells a function or class that is known by several paths, or None for all else."""
    value = served(path).value if path.startswith("jax.") and "*" not in path else None
    return id(value) if isinstance(value, type | types.FunctionType) else None
