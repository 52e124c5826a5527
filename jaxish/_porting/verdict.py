"""What a code base uses of JAX, and for each name whether jaxish has it, has it with a difference, or lacks it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .._core.machine import JAX_VERSION
from .differences import Difference, about_argument, about_name, table
from .names import Use, uses
from .served import Served, is_of_jax, served, takes
from .sources import Place, Source, Unread, read

_REFUSED = "it raises NotImplementedError"
Status = Literal["has", "differs", "missing"]


class UseAt(NamedTuple):
    """A use of a name: where it is, and why the program runs if the name is not there (`names.Use`), or nothing."""

    place: Place
    column: int
    guard: str


@dataclass
class Name:
    """A name of JAX that the code uses, `jax.lax.scan` or `jax.vmap(sum_match=)`, and what is known of it."""

    name: str
    status: Status
    reason: str = ""
    lacking: str = ""
    in_jax: bool | None = True  # None: it is private, or of an object, so that it cannot be known
    differences: list[Difference] = field(default_factory=list)
    uses: list[UseAt] = field(default_factory=list)

    @property
    def is_guarded(self) -> bool:
        """Tell whether the program runs without the name, at each of its uses."""
        return all(use.guard for use in self.uses)

    @property
    def fails(self) -> bool:
        """Tell whether a program that comes to a use of this name fails."""
        return self.status == "missing" and not self.is_guarded


@dataclass
class Verdict:
    """All that was found."""

    files: int
    unread: list[Unread]
    names: list[Name]

    @property
    def exit_code(self) -> int:
        """Return 0 if nothing is missing, 1 if something is, 2 if no file could be read."""
        if self.files == len(self.unread):
            return 2
        return int(any(name.fails for name in self.names))


def check(paths: Sequence[str]) -> Verdict:
    """Read the Python below the paths and look its names of JAX up. Nothing of it is imported or run."""
    read_files = list(read(paths))
    unread = [found for found in read_files if isinstance(found, Unread)]
    names: dict[tuple[str, Status], Name] = {}
    for source in read_files:
        if isinstance(source, Source):
            try:
                found = list(_names(source))
            except RecursionError:
                unread.append(Unread(source.place(1), "nested too deeply to be followed"))
                continue
            for name, use in found:
                names.setdefault((name.name, name.status), name).uses.append(use)
    order: dict[Status, int] = {"missing": 0, "differs": 1, "has": 2}
    return Verdict(len(read_files), unread, sorted(names.values(), key=lambda n: (order[n.status], n.name)))


def _names(source: Source) -> Iterator[tuple[Name, UseAt]]:
    """Yield what a file uses, one name for each use."""
    found = uses(source.tree, lambda path: served(path).there)
    optional = _optional(found)
    for use in found:
        guard = use.guard
        if not use.name.startswith("."):
            name = _name(use.name)
            if name.lacking and not _is_looked_up(name.lacking, use):
                guard = guard or optional[name.lacking]
            yield name, UseAt(source.place(use.line), use.column, guard)
        for name in _arguments(use):
            yield name, UseAt(source.place(use.line), use.column, guard)


def _is_looked_up(lacking: str, use: Use) -> bool:
    """Tell whether it is this use that fails, or the one by which the program came to what it uses here."""
    return not (use.given == lacking or use.given.startswith(f"{lacking}."))


def _optional(found: Iterable[Use]) -> dict[str, str]:
    """Return for what is missing why a program runs on wherever it looks for it, or nothing."""
    guards: dict[str, list[str]] = defaultdict(list)
    for use in found:
        if not use.name.startswith(".") and (lacking := served(use.name).lacking) and _is_looked_up(lacking, use):
            guards[lacking].append(use.guard)
    return defaultdict(str, {lacking: there[0] for lacking, there in guards.items() if all(there)})


def _name(path: str) -> Name:
    found = served(path)
    matches = about_name(path)
    differences = [match.difference for match in matches]
    if not found.there:
        return Name(path, "missing", _why_missing(found), found.lacking, is_of_jax(found.lacking), differences)
    if any(match.is_refused for match in matches):
        refusing = [match.difference for match in matches if match.is_refused]
        return Name(path, "missing", _REFUSED, path, differences=refusing)
    return Name(path, "differs" if differences else "has", differences=differences)


def _why_missing(found: Served) -> str:
    """Return the reason, and what is known of JAX: it may lack the name, too."""
    if instead := table()["removed"].get(found.lacking):
        return f"{found.reason}, nor has JAX {JAX_VERSION}. Instead: {instead}"
    return f"{found.reason}, nor has JAX {JAX_VERSION}" if is_of_jax(found.lacking) is False else found.reason


def _arguments(use: Use) -> Iterator[Name]:
    """Yield the arguments of a call that are not taken, or are taken with a difference."""
    if not use.name.startswith(".") and not served(use.name).there:
        return
    for argument in use.arguments:
        name = f"{use.name}({argument.keyword}=)"
        if not use.name.startswith(".") and not takes(use.name, argument.keyword):
            reason = f"jaxish's {use.name} takes no such argument (JAX's may not, either)"
            yield Name(name, "missing", reason, name, in_jax=None)
        elif matches := about_argument(use.name, argument):
            refused = any(match.is_refused for match in matches)
            differences = [match.difference for match in matches if match.is_refused or not refused]
            yield Name(name, "missing" if refused else "differs", _REFUSED if refused else "", differences=differences)
