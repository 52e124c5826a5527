"""Where two pytrees differ in structure, in JAX's words, for the messages of errors."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import tree
from .tree import IsLeaf


@dataclass(frozen=True)
class Difference:
    """One place at which two structures differ: what either has there, of what kind it is, and why they do not agree."""

    path: str
    first: str
    second: str
    kind: str
    reason: str


def differences(first: tree.Spec, second: tree.Spec) -> list[Difference]:
    """Return the places where two structures differ, outermost first; nothing is said of what lies below one."""
    return list(_between(tree.skeleton(first), tree.skeleton(second), ""))


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Callable[[str], ValueError]]:
    """Return for each place where a tree is no prefix of another what makes the error, of the prefix's name."""
    stops = lambda x: tree.children_with_keys(x) is None or (is_leaf is not None and is_leaf(x))  # noqa: E731
    return [functools.partial(_prefix_error, d) for d in _between(prefix_tree, full_tree, "", stops)]


def _prefix_error(difference: Difference, name: str) -> ValueError:
    return ValueError(
        f"pytree structure error: different {difference.kind} at key path\n    {name}{difference.path}\nAt that key path, the "
        f"prefix pytree {name} has a {difference.first}, but the full pytree has a {difference.second}."
    )


def broadcast_prefix(prefix: Any, spec: tree.Spec, name: str, is_leaf: IsLeaf = None, hint: str = "") -> list[Any]:
    """Return one value per leaf of `spec`, as `tree.broadcast_prefix` does, for what users call `name`.

    Raises `ValueError` that tells all places where it is no prefix of the structure.
    """
    try:
        return tree.broadcast_prefix(prefix, spec, is_leaf)
    except ValueError:
        found = prefix_errors(prefix, tree.skeleton(spec), is_leaf)
        details = "".join(f"\n  {error(name)}" for error in found)
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value;{hint}"
            f"\n  Mismatch details ({len(found)} found):{details}"
        ) from None


def _between(first: Any, second: Any, path: str, stops: Callable[[Any], bool] | None = None) -> Iterator[Difference]:
    """Yield the differences; where `stops` says so, whatever the second tree has is right."""
    if stops is not None and stops(first):
        return
    pairs, others = tree.children_with_keys(first), tree.children_with_keys(second)
    kinds = type(first), type(second)
    if pairs is None or others is None:
        if pairs is not others:
            texts = ["pytree leaf" if p is None else str(k) for p, k in zip((pairs, others), kinds, strict=True)]
            yield Difference(path, texts[0], texts[1], "types", "their Python types differ")
        return
    if kinds[0] is not kinds[1]:
        yield Difference(path, str(kinds[0]), str(kinds[1]), "types", "their Python types differ")
    elif len(pairs) != len(others):
        yield _of_sizes(kinds[0], pairs, others, path)
    elif (data := _metadata(first)) != (other := _metadata(second)):
        texts = [f"{kinds[0]} with pytree metadata {d}" for d in (data, other)]
        yield Difference(path, texts[0], texts[1], "pytree metadata", "the pytree node metadata does not match")
    else:
        for (key, left), (_, right) in zip(pairs, others, strict=True):
            yield from _between(left, right, f"{path}{key}", stops)


def _of_sizes(kind: type, pairs: list[Any], others: list[Any], path: str) -> Difference:
    if kind in (tuple, list):
        texts = [f"{kind.__name__} of length {len(p)}" for p in (pairs, others)]
        return Difference(path, texts[0], texts[1], f"lengths of {kind.__name__}", "the lengths do not match")
    texts = [f"{kind} with {len(p)} child{'ren' if len(p) > 1 else ''}" for p in (pairs, others)]
    reason = "the numbers of children do not match"
    if issubclass(kind, dict):
        only = {key.key for key, _ in pairs} ^ {key.key for key, _ in others}
        reason += f", with the symmetric difference of key sets: {{{', '.join(map(repr, sorted(only, key=str)))}}}"
    return Difference(path, texts[0], texts[1], "numbers of pytree children", reason)


def _metadata(node: Any) -> Any:
    data = (tree.PyTreeDef(tree.flatten(node)[1]).node_data() or (None, None))[1]
    return tuple(data) if isinstance(data, list) else data


def listed(sentences: list[str]) -> str:
    """Return sentences without their full stops as a paragraph, or as a list where there are more than one."""
    if len(sentences) == 1:
        return f"{sentences[0][0].upper() if sentences[0].startswith('the ') else sentences[0][0]}{sentences[0][1:]}."
    return "\n".join(f"  * {s}{'.' if s is sentences[-1] else ';'}" for s in sentences)
