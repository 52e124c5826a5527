"""Where two pytrees differ in structure, in JAX's words, for the messages of errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import tree


@dataclass(frozen=True)
class Difference:
    """One place at which two structures differ: what either has there, and why they do not agree."""

    path: str
    first: str
    second: str
    reason: str


def differences(first: tree.Spec, second: tree.Spec) -> list[Difference]:
    """Return the places where two structures differ, outermost first; nothing is said of what lies below one."""
    trees = [spec.unflatten(range(spec.num_leaves)) for spec in (first, second)]
    return list(_between(trees[0], trees[1], ""))


def _between(first: Any, second: Any, path: str) -> Iterator[Difference]:
    pairs, others = tree.children_with_keys(first), tree.children_with_keys(second)
    kinds = type(first), type(second)
    if pairs is None or others is None:
        if pairs is not others:
            texts = ["pytree leaf" if p is None else str(k) for p, k in zip((pairs, others), kinds, strict=True)]
            yield Difference(path, texts[0], texts[1], "their Python types differ")
        return
    if kinds[0] is not kinds[1]:
        yield Difference(path, str(kinds[0]), str(kinds[1]), "their Python types differ")
    elif len(pairs) != len(others):
        yield _of_sizes(kinds[0], pairs, others, path)
    elif (data := _metadata(first)) != (other := _metadata(second)):
        texts = [f"{kinds[0]} with pytree metadata {d}" for d in (data, other)]
        yield Difference(path, texts[0], texts[1], "the pytree node metadata does not match")
    else:
        for (key, left), (_, right) in zip(pairs, others, strict=True):
            yield from _between(left, right, f"{path}{key}")


def _of_sizes(kind: type, pairs: list[Any], others: list[Any], path: str) -> Difference:
    if kind in (tuple, list):
        texts = [f"{kind.__name__} of length {len(p)}" for p in (pairs, others)]
        return Difference(path, texts[0], texts[1], "the lengths do not match")
    texts = [f"{kind} with {len(p)} child{'ren' if len(p) > 1 else ''}" for p in (pairs, others)]
    reason = "the numbers of children do not match"
    if issubclass(kind, dict):
        only = {key.key for key, _ in pairs} ^ {key.key for key, _ in others}
        reason += f", with the symmetric difference of key sets: {{{', '.join(map(repr, sorted(only, key=str)))}}}"
    return Difference(path, texts[0], texts[1], reason)


def _metadata(node: Any) -> Any:
    data = (tree.PyTreeDef(tree.flatten(node)[1]).node_data() or (None, None))[1]
    return tuple(data) if isinstance(data, list) else data


def listed(sentences: list[str]) -> str:
    """Return sentences without their full stops as a paragraph, or as a list where there are more than one."""
    if len(sentences) == 1:
        return f"{sentences[0][0].upper() if sentences[0].startswith('the ') else sentences[0][0]}{sentences[0][1:]}."
    return "\n".join(f"  * {s}{'.' if s is sentences[-1] else ';'}" for s in sentences)
