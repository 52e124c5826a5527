"""What was found, for people and for other programs."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .._core.machine import JAX_VERSION
from ..version import __version__
from .differences import Difference, differences
from .verdict import Name, UseAt, Verdict

SCHEMA = 1
SHOWN = 4  # places of a name; the JSON has all
GUARDS = {
    "ImportError": "the error is caught",
    "AttributeError": "the error is caught",
    "hasattr": "a hasattr() that is false skips it",
    "version": "a test of JAX's version skips it",
    "typing": "for type checkers",
}


def sentence(verdict: Verdict) -> str:
    """Return the verdict in one sentence."""
    failing = [name for name in verdict.names if name.fails]
    unread = f" ({_many(len(verdict.unread), 'file')} could not be read)" if verdict.unread else ""
    if verdict.exit_code == 2:
        return "No file could be read, so nothing can be said."
    if not verdict.names:
        return f"No name of jax is used{unread}: there is nothing to port."
    if failing:
        roots = list(dict.fromkeys(name.lacking or name.name for name in failing))
        shown = ", ".join(roots[:3]) + (f" and {len(roots) - 3} more" if len(roots) > 3 else "")
        return f"It needs what jaxish {__version__} lacks{unread}: {shown}."
    some = sum(name.status == "differs" for name in verdict.names)
    how = f"{_many(some, 'of them has a difference', 'of them have a difference')} to look at" if some else "as in JAX"
    return f"Every name of jax that it needs is there{unread}, {how}."


def counts(verdict: Verdict) -> dict[str, int]:
    """Return how many files, names and uses there are, and how many names have each status."""
    found = {status: sum(name.status == status for name in verdict.names) for status in ("has", "differs", "missing")}
    return {
        "files": verdict.files,
        "unread": len(verdict.unread),
        "names": len(verdict.names),
        "uses": sum(len(name.uses) for name in verdict.names),
        **found,
        "guarded": sum(name.status == "missing" and name.is_guarded for name in verdict.names),
    }


# --------------------------------------------------------------------------------------------------------- for programs


def as_json(verdict: Verdict) -> str:
    """Return the verdict in JSON. docs/porting.md describes the schema; `schema` grows when a field changes its meaning."""
    listed: dict[str, Any] = {
        "schema": SCHEMA,
        "jaxish": __version__,
        "jax": JAX_VERSION,
        "exit_code": verdict.exit_code,
        "verdict": sentence(verdict),
        "counts": counts(verdict),
        "names": [_name(name) for name in verdict.names],
        "unread": [{**unread.place._asdict(), "reason": unread.reason} for unread in verdict.unread],
    }
    return json.dumps(listed, indent=1, ensure_ascii=False)


def _name(name: Name) -> dict[str, Any]:
    return {
        "name": name.name,
        "status": name.status,
        "guarded": name.status == "missing" and name.is_guarded,
        "in_jax": name.in_jax,
        "reason": name.reason or None,
        "differences": [
            {"section": d.section, "text": _flat(d.text), "instead": _flat(d.instead) or None} for d in name.differences
        ],
        "uses": [{**use.place._asdict(), "column": use.column, "guard": use.guard or None} for use in name.uses],
    }


# ----------------------------------------------------------------------------------------------------------- for people


def as_text(verdict: Verdict) -> str:
    """Return the verdict as text: what is missing, what differs, what could not be read, and the sentence."""
    missing = [name for name in verdict.names if name.status == "missing"]
    failing, guarded = ([n for n in missing if n.fails is fails] for fails in (True, False))
    differing = [name for name in verdict.names if name.status == "differs"]
    sections = {
        "Missing": _missing(failing),
        "Missing, and the program runs without": _missing(guarded),
        "With a difference": _differing(differing),
        "Not read": (f"  {unread.place}: {unread.reason}" for unread in verdict.unread),
    }
    lines = [line for title, body in sections.items() if (found := list(body)) for line in (f"{title}:", *found, "")]
    n = counts(verdict)
    lines.append(
        f"{_many(n['files'], 'file')}, {_many(n['names'], 'name')} of jax in {_many(n['uses'], 'place')}: {n['has']} as in "
        f"JAX, {n['differs']} with a difference, {n['missing']} missing"
        + (f", of which {n['guarded']} not needed." if n["guarded"] else ".")
    )
    return "\n".join([*lines, sentence(verdict)])


def _missing(names: Sequence[Name]) -> Iterator[str]:
    """Yield what is missing, with the names below it: those of a module, if that is missing."""
    groups: dict[str, list[Name]] = {}
    for name in names:
        groups.setdefault(name.lacking or name.name, []).append(name)
    for lacking, group in sorted(groups.items()):
        yield f"  {lacking}: {group[0].reason}"
        yield f"    {_places([use for name in group for use in name.uses])}"
        if below := [name.name.removeprefix(f"{lacking}.") for name in group if name.name != lacking]:
            yield from _wrapped(f"of it: {', '.join(below)}")
        for difference in group[0].differences:
            yield from _wrapped(_told(difference))


def _differing(names: Sequence[Name]) -> Iterator[str]:
    """Yield each difference once, with the names that it is about."""
    for difference in differences():
        about = [name for name in names if difference in name.differences]
        for name in about:
            yield f"  {name.name}: {_places(name.uses)}"
        if about:
            yield from _wrapped(_told(difference))


def _told(difference: Difference) -> str:
    if difference.section == "unsupported":
        return f"Not supported: {_flat(difference.text)}. Instead: {_flat(difference.instead)}"
    return _flat(difference.text)


def _places(uses: Sequence[UseAt]) -> str:
    places = list(dict.fromkeys(str(use.place) + _aside(use.guard) for use in uses))
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    return ", ".join(places[:SHOWN]) + more


def _aside(guard: str) -> str:
    return f" ({GUARDS[guard]})" if guard else ""


def _wrapped(text: str) -> Iterable[str]:
    return textwrap.wrap(text, 118, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _flat(text: str) -> str:
    """Return the text of a page as plain text on one line."""
    return " ".join(text.replace("**", "").split())


def _many(count: int, thing: str, things: str = "") -> str:
    return f"{count} {thing if count == 1 else things or thing + 's'}"
