"""Pytrees against JAX: flattening, printing, comparison, registration, key paths."""

import collections
import dataclasses
import functools
import gc
import re
import time
import weakref
from typing import Any, NamedTuple

import jax
import jax.flatten_util
import numpy as np
import pytest
from oracle import agree

import jaxish
import jaxish.flatten_util
from jaxish._core import tree


class Point(NamedTuple):
    x: object
    y: object


TREES = [
    1,
    None,
    (),
    (1,),
    [1, (2, None)],
    {"b": 1, "a": (2, None)},
    Point(1, [2]),
    collections.OrderedDict(z=1, a=2),
    collections.defaultdict(list, {"z": 1, "a": 2}),
    {"n": {1: 2, 0: (3,)}},
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_flattening_and_printing_like_jax(tree):
    wanted_leaves, wanted = jax.tree.flatten(tree)
    leaves, treedef = jaxish.tree.flatten(tree)
    assert leaves == wanted_leaves
    assert str(treedef) == str(wanted)
    assert (treedef.num_leaves, treedef.num_nodes) == (wanted.num_leaves, wanted.num_nodes)
    assert treedef.node_data() == wanted.node_data()
    assert treedef.unflatten(leaves) == tree
    assert list(map(str, treedef.children())) == list(map(str, wanted.children()))


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_key_paths_like_jax(tree):
    wanted = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(tree)]
    assert [jaxish.tree_util.keystr(path) for path, _ in jaxish.tree.leaves_with_path(tree)] == wanted
    simple = [jax.tree_util.keystr(p, simple=True, separator="/") for p, _ in jax.tree.leaves_with_path(tree)]
    found = [jaxish.tree_util.keystr(p, simple=True, separator="/") for p, _ in jaxish.tree.leaves_with_path(tree)]
    assert found == simple


PROGRAMS = {
    "map of two": lambda j: j.tree.map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)}),
    "map over a prefix": lambda j: j.tree.map(lambda x, y: (x, y), (1, 2), ([3, 4], {"c": 5})),
    "map with is_leaf": lambda j: j.tree.map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)),
    "reduce": lambda j: j.tree.reduce(lambda a, b: a + b, [1, (2, 3)], 10),
    "all": lambda j: j.tree.all([True, (False,)]),
    "transpose": lambda j: j.tree.transpose(j.tree.structure([0, 0]), j.tree.structure({"a": 0}), [{"a": 1}, {"a": 2}]),
    "broadcast": lambda j: j.tree.broadcast((1, 2), ([3, 4], 5)),
    "structures compare": lambda j: j.tree.structure((1, 2)) == j.tree.structure((3, 4)),
    "structures differ": lambda j: j.tree.structure((1, 2)) == j.tree.structure([3, 4]),
    "compose": lambda j: str(j.tree.structure((0, 0)).compose(j.tree.structure([0]))),
    "treedef_tuple": lambda j: str(j.tree_util.treedef_tuple([j.tree.structure(0), j.tree.structure([0])])),
    "map with path": lambda j: j.tree.map_with_path(lambda p, x: j.tree_util.keystr(p), {"a": (1, 2)}),
    "is_tree_node": lambda j: [j.tree_util.is_tree_node(t) for t in (tuple, dict, Point, int, type(None))],
    "reduce associative": lambda j: j.tree.reduce_associative(lambda a, b: a + b, [1, (2, 3), 4]),
    "all_leaves": lambda j: (j.tree_util.all_leaves([1, 2]), j.tree_util.all_leaves([1, (2,)])),
    "ravel": lambda j: np.asarray(j.flatten_util.ravel_pytree({"a": np.ones(2, np.float32), "b": 3.0})[0]).tolist(),
}
ERRORS = {
    "map of different structures": lambda j: j.tree.map(lambda x, y: x, (1, 2), (1, 2, 3)),
    "unflatten too few": lambda j: j.tree.unflatten(j.tree.structure((1, 2)), [1]),
    "keys that do not compare": lambda j: j.tree.map(lambda x: x, [{1: 2, "a": 3}]),
    "keys of a default that do not compare": lambda j: j.tree.leaves(collections.defaultdict(int, {1: 2, "a": 3})),
    "an argument's keys that do not compare": lambda j: j.jit(lambda d: d)({1: 2, "a": 3}),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_functions_like_jax(program):
    import jax.flatten_util

    import jaxish.flatten_util

    assert program(jaxish) == program(jax)


@pytest.mark.parametrize("program", ERRORS.values(), ids=ERRORS.keys())
def test_errors_like_jax(program):
    with pytest.raises(Exception) as wanted:
        program(jax)
    with pytest.raises(wanted.type):
        program(jaxish)


def both(define):
    """Return what `define` makes of either library."""
    return define(jax), define(jaxish)


def test_a_registered_class_is_a_node():
    def define(j):
        @j.tree_util.register_pytree_node_class
        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

            def tree_flatten(self):
                return (self.a,), self.b

            @classmethod
            def tree_unflatten(cls, b, children):
                return cls(*children, b)  # pyright: ignore

        leaves, treedef = j.tree.flatten(Pair(1, "static"))
        doubled = j.tree.map(lambda x: x * 2, Pair(1, "static"))
        return (
            leaves,
            str(treedef).replace("<locals>.", ""),
            doubled.a,
            doubled.b,
            treedef == j.tree.structure(Pair(1, "other")),
        )

    wanted, found = both(define)
    assert found == wanted


def test_a_registered_dataclass_is_a_node_with_static_fields():
    def define(j):
        @j.tree_util.register_dataclass
        @dataclasses.dataclass
        class Layer:
            w: object
            name: str = j.tree.static(default="n")

        layer = Layer(1, "x")
        paths = [j.tree_util.keystr(p) for p, _ in j.tree.leaves_with_path(layer)]
        return j.tree.leaves(layer), paths, j.tree.map(lambda v: v + 1, layer).name

    wanted, found = both(define)
    assert found == wanted


def test_registering_twice_is_an_error():
    class Once:
        pass

    jaxish.tree_util.register_pytree_node(Once, lambda o: ((), None), lambda d, c: Once())
    with pytest.raises(ValueError, match="Duplicate"):
        jaxish.tree_util.register_pytree_node(Once, lambda o: ((), None), lambda d, c: Once())


def test_a_static_class_has_no_leaves_and_takes_part_in_jit_signatures():
    @jaxish.tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Mode:
        name: str

    traced = []

    @jaxish.jit
    def f(mode, x):
        traced.append(mode.name)
        return x

    f(Mode("a"), 1.0)
    f(Mode("a"), 2.0)
    f(Mode("b"), 3.0)
    assert traced == ["a", "b"]


def test_a_partial_is_a_pytree_of_its_arguments():
    partial = jaxish.tree_util.Partial(jaxish.numpy.add, 1.0)
    assert jaxish.tree.leaves(partial) == [1.0]
    assert jaxish.jit(lambda f, x: f(x))(partial, 2.0) == 3.0


def nested(kind, depth):
    tree = np.float32(1)
    for _ in range(depth):
        tree = kind([("a", tree)]) if kind is dict else kind([tree])  # pyright: ignore
    return tree


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_deep_trees(kind):
    deep = nested(kind, 800)  # JAX counts the frames of its callers, too
    texts = [str(library.tree_util.tree_structure(deep)) for library in (jax, jaxish)]
    assert texts[0] == texts[1]
    for function in (
        lambda j: j.tree_util.tree_map(lambda x: x + 1, deep),
        lambda j: j.jit(lambda t: t)(deep),
        lambda j: j.grad(lambda t: j.tree_util.tree_leaves(t)[0] * 2.0)(deep),
    ):
        leaves = [library.tree_util.tree_leaves(function(library)) for library in (jax, jaxish)]
        np.testing.assert_array_equal(*leaves)


@pytest.mark.parametrize("depth", [2000, 5000])
def test_trees_that_are_too_deep(depth):
    tree = nested(list, depth)
    for function in (jaxish.tree_util.tree_leaves, jaxish.jit(lambda t: t), jaxish.grad(lambda t: 1.0)):
        with pytest.raises(RecursionError, match="flattening the tree"):  # JAX: a SystemError without a word
            function(tree)


# ------------------------------------------------------------------------------------------------------ JAX's messages

Pair, Other = collections.namedtuple("Pair", "x"), collections.namedtuple("Other", "x")


class Tagged:
    def __init__(self, tag):
        self.tag = tag

    def __repr__(self):
        return f"Tagged({self.tag})"


for library in (jax, jaxish):
    library.tree_util.register_pytree_node(Tagged, lambda t: ((1, 2), t.tag), lambda tag, children: Tagged(tag))

MISMATCHES = [
    ((1,), (7, 8)), ((1,), [7]), ((1,), 7), ([1], (7,)), ([1], [7, 8]), ([1], {"a": 7}), ({"a": 1}, {"b": 7}),
    ({"a": 1}, {"a": 7, "b": 8}), ({"a": 1}, (7,)), ({"a": 1}, 7), (None, 7), (Pair(1), Other(7)), (Pair(1), (7,)),
    (Pair(1), 7), (Tagged(1), 7), (Tagged(1), Tagged(2)), ((1, (2, 3)), (7, [8, 9])), ([1, [2]], [7, [8, 9]]),
    (collections.OrderedDict(a=1), collections.OrderedDict(b=7)),
    (collections.defaultdict(int, a=1), collections.defaultdict(int, b=7)),
]  # fmt: skip


def message_of(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    raise AssertionError("no error")


@pytest.mark.parametrize(("structure", "tree"), MISMATCHES)
def test_flatten_up_to_says_what_jax_says(structure, tree):
    found, wanted = (
        message_of(lambda: lib.tree_util.tree_structure(structure).flatten_up_to(tree)) for lib in (jaxish, jax)
    )
    assert found == wanted


@pytest.mark.parametrize("answer", [(2, 3, 4), 3, (2,), (1, "data")])
def test_flattening_functions_that_give_no_pair(answer):
    def program(lib):
        cls = type("Node", (), {})
        lib.tree_util.register_pytree_node(cls, lambda _: answer, lambda *_: None)
        return message_of(lambda: lib.tree.leaves(cls()))

    assert program(jaxish) == program(jax)


@pytest.mark.parametrize("fields", [(["x"], []), (["x", "y"], ["y"]), (["x", "y", "z"], [])])
def test_fields_of_dataclasses_that_do_not_fit(fields):
    def program(lib):
        cls = dataclasses.make_dataclass("Data", [("x", int), ("y", int)])
        return message_of(lambda: lib.tree_util.register_dataclass(cls, *fields))

    assert program(jaxish) == program(jax)


def test_partials_of_one_function_are_equal():
    for lib in (jax, jaxish):
        inner = functools.partial(max, 1)
        first, second = lib.tree_util.Partial(inner, 2), lib.tree_util.Partial(inner, 2)
        assert inner == first.func == second.func and hash(first.func) == hash(second.func)
        assert first() == 2 and lib.tree.leaves(first) == [2]


def test_walk_gives_the_nodes_data():
    def program(lib):
        leaves, structure = lib.tree_util.tree_flatten({"b": (1, 2), "a": [3]})
        seen = []
        structure.walk(lambda children, data: seen.append((children, data)), lambda leaf: seen.append(leaf), leaves)
        return repr(seen)

    assert program(jaxish) == program(jax)


def test_unravel_is_equal_for_equal_structures():
    def program(lib):
        traced = []
        undo = lib.jit(lambda flat, unravel: [traced.append(1), unravel(flat + 1)][1], static_argnums=1)
        for _ in range(2):
            results = undo(*lib.flatten_util.ravel_pytree((lib.numpy.arange(2), {"a": lib.numpy.ones((2, 2))})))
        return results, len(traced)

    agree(program)


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64", "float16"])
@pytest.mark.parametrize("kinds", [("float32", "float32"), ("int8", "float32"), ("complex64", "complex64")])
def test_unravel_gives_leaves_of_equal_dtypes_that_of_its_vector(kinds, dtype):
    def program(j):
        undo = j.flatten_util.ravel_pytree({"a": j.numpy.ones(2, kinds[0]), "b": j.numpy.ones((1, 2), kinds[1])})[1]
        vector = j.numpy.arange(4).astype(dtype)
        return undo(vector), j.vmap(undo)(vector[None]), j.jit(undo)(vector)

    agree(program)


KEYED = {"b": 1.0, "a": {"d": 2.0, "c": 3.0}}


@dataclasses.dataclass
class Holder:
    held: Any


@dataclasses.dataclass
class Marked(Holder):
    mark: object


for library in (jax, jaxish):
    library.tree_util.register_dataclass(Holder, data_fields=["held"], meta_fields=[])
    library.tree_util.register_dataclass(Marked, data_fields=["held"], meta_fields=["mark"])

ORDERS = {
    "map": lambda j: j.tree.map(lambda x: x, KEYED),
    "unflatten": lambda j: j.tree.unflatten(j.tree.structure(KEYED), [1, 2, 3]),
    "defaultdict": lambda j: j.tree.map(lambda x: x, collections.defaultdict(list, KEYED)),
    "OrderedDict": lambda j: j.tree.map(lambda x: x, collections.OrderedDict(KEYED)),
    "within a class": lambda j: j.tree.map(lambda x: x, Holder({"y": 1.0, "x": KEYED})).held,
    "within a class that held none": lambda j: [j.tree.map(lambda x: x, Holder(h)) for h in ((1.0,), KEYED)][1].held,
    "beside what has no hash": lambda j: [j.tree.map(lambda x: x, Marked(KEYED, [1])) for _ in "ab"][1].held,
    "within a list": lambda j: j.tree.map(lambda x: x, [(KEYED,)])[0][0],
    "jit": lambda j: j.jit(lambda t: {"z": t["b"], "y": t["a"]})(KEYED),
    "vmap": lambda j: j.vmap(lambda x: {"z": x, "y": x})(np.ones(2)),
    "grad": lambda j: j.grad(lambda t: t["b"] * t["a"]["c"])(KEYED),
    "scan": lambda j: j.lax.scan(lambda c, x: (c, {"q": x, "p": c["a"]["c"]}), KEYED, np.ones(2, "f"))[1],
    "eval_shape": lambda j: j.eval_shape(lambda: dict(KEYED)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_keys_come_back_in_order(name):
    order = lambda tree: [(k, order(v)) for k, v in tree.items()] if isinstance(tree, dict) else None
    assert order(ORDERS[name](jaxish)) == order(ORDERS[name](jax))


def test_what_a_class_holds_beside_its_leaves_is_not_kept():
    mark = lambda: None
    gone = weakref.ref(mark)
    jaxish.tree.map(lambda x: x, Marked((1.0, 2.0), mark))
    del mark
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "checkpoint", "linearize"])
def test_programs_see_keys_in_order(transform):
    def seen(j):
        found = []

        def f(tree):
            found.extend(tree)
            return sum(j.numpy.sum(x) for x in j.tree.leaves(tree))

        given = j.tree.map(
            lambda x: np.array([x], np.float32) if transform == "vmap" else x, {"b": 1.0, "a": 2.0, "c": 3.0}
        )
        given = {k: given[k] for k in ("c", "b", "a")}
        j.linearize(f, given) if transform == "linearize" else getattr(j, transform)(f)(given)
        return found

    assert seen(jaxish) == seen(jax)


A = np.ones(2, "f")

NO_PREFIX = {
    "types": lambda j: j.tree.map(lambda x, y: x, {"a": 1, "c": [1, 2]}, {"a": 1, "c": None}, is_leaf=lambda x: x is None),
    "keys": lambda j: j.tree.map(lambda x, y: x, {"a": 1}, {"b": 1}),
    "lengths": lambda j: j.tree.map(lambda x, y: x, (1, (2,)), (1, (2, 3))),
    "numbers of keys": lambda j: j.tree.map(lambda x, y: x, {"a": 1}, {"a": 1, "b": 2}),
    "with paths": lambda j: j.tree.map_with_path(lambda p, x, y: x, [(1, 2)], [[1, 2]]),
    "in_axes": lambda j: j.vmap(lambda x: x, in_axes=([0],))({"a": A}),
    "in_axes of several": lambda j: j.vmap(lambda x: x, in_axes=({"a": [0], "b": (0, 0)},))({"a": A, "b": (A,)}),
    "out_axes": lambda j: j.vmap(lambda x: x, out_axes=(0, 0))(A),
    "in_shardings": lambda j: j.jit(lambda x: x, in_shardings=({"a": None},))([A]),
    "devices": lambda j: j.device_put({"a": 1, "b": 2}, {"a": [None, None], "b": (None, None)}),
    "local data": lambda j: j.make_array_from_process_local_data(j.devices()[0], {"a": A}, {"a": (2,), "b": (3,)}),
    "specs": lambda j: j.shard_map(
        lambda x: x, mesh=j.make_mesh((1,), ("x",)), in_specs=({"a": j.P("x")},), out_specs=j.P("x")
    )(A),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PREFIX)
def test_where_a_tree_is_no_prefix(name):
    def told(j):
        with pytest.raises(ValueError) as caught:
            NO_PREFIX[name](j)
        found = re.findall(r"pytree structure error: (different .* at key path)\n *(.*)", str(caught.value))
        return [
            (kind, path.replace("pjit", "jit").replace("broadcast_prefix prefix_tree", "global_shape"))
            for kind, path in found
        ]

    assert told(jaxish) == told(jax)


class Swap:
    def __init__(self, a, b):
        self.a, self.b = a, b


NODES = [
    (1, 2), [1, 2], {"b": 1, "a": 2}, None, collections.OrderedDict(b=1, a=2), collections.defaultdict(int, b=1, a=2), Swap(1, 2),
]  # fmt: skip


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_the_table_of_nodes_takes_them_apart_and_makes_them(node):
    from jax._src.tree_util import _registry

    for lib in (jax, jaxish) if type(node) is Swap else ():
        lib.tree_util.register_pytree_node(Swap, lambda x: ((x.b, x.a), "data"), lambda _, children: Swap(*children))

    def parts(table):
        entry = table[type(node)]
        children, data = entry.to_iter(node)
        made = entry.from_iter(data, [child * 10 for child in children])
        return list(children), data, vars(made) if type(node) is Swap else made

    assert parts(tree.node_types) == parts(_registry)


def test_the_table_of_nodes_has_no_leaves():
    with pytest.raises(KeyError):
        tree.node_types[int]


@pytest.mark.parametrize("value", [0, None, [1, 2], (), object, collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}])
def test_the_registry_flattens_one_level_and_returns_none_for_leaves(value):
    def children(j, method):
        found = getattr(j.tree_util.default_registry, method)(value)
        return None if found is None else [str(child) for child in found[0]]

    for method in ("flatten_one_level", "flatten_one_level_with_keys"):
        assert children(jaxish, method) == children(jax, method)
    is_node = [j.tree_util.default_registry.is_node(type(value)) for j in (jax, jaxish)]
    assert is_node[0] == is_node[1]


@pytest.mark.parametrize("value", [{"b": 1, "a": [2]}, {}, (1, (2,)), [1], None, Point(1, 2)])
def test_the_children_and_static_data_of_a_node(value):
    for name in ("flatten_one_level", "flatten_one_level_with_keys"):
        found, wanted = (getattr(j.tree_util, name)(value) for j in (jaxish, jax))
        assert found[1] == wanted[1]
    assert jaxish.tree_util.flatten_one_level(value) == jax.tree_util.flatten_one_level(value)


OPTREES_OWN_NODES = [collections.deque([1, (2, None)], 3), time.gmtime(0), collections.deque()]


@pytest.mark.parametrize("leaf", OPTREES_OWN_NODES, ids=lambda leaf: type(leaf).__name__)
def test_what_is_a_node_to_optree_only_is_a_leaf(leaf):
    class Holding:
        def __init__(self, x):
            self.x = x

        def __repr__(self):
            return f"Holding({self.x})"

    def program(j):
        j.tree_util.register_pytree_node(Holding, lambda h: ((h.x,), None), lambda _, children: Holding(*children))
        found = []
        for given in (leaf, [leaf, {"b": leaf, "a": (2, leaf)}], Holding(leaf), {"a": leaf, "b": Holding((3, leaf))}):
            leaves, structure = j.tree.flatten(given)
            found += [str(leaves), structure.num_leaves, j.tree_util.all_leaves([given])]
            found += [str(j.tree.leaves(given, is_leaf=lambda x: type(x) is tuple)), str(j.tree.leaves(given))]
            found += [str(j.tree_util.tree_leaves_with_path(given)), str(j.tree.leaves(j.tree.map(type, given)))]
            found += [j.tree.structure(j.tree.map(str, given)) == structure, str(j.tree.broadcast(leaf, [1, 2]))]
        return [str(found)]

    assert program(jaxish) == program(jax)


CALLS = {
    "jit": lambda j, x: j.jit(lambda x: x)(x),
    "jit again": lambda j, x: [j.jit(lambda x, y: x)([x], y) for y in (1, 2)],
    "result": lambda j, x: j.jit(lambda y: x)(1.0),
    "grad": lambda j, x: j.grad(lambda x: 1.0)(x),
    "vmap": lambda j, x: j.vmap(lambda x: x)(x),
    "device_put": lambda j, x: j.device_put(x),
    "scan": lambda j, x: j.lax.scan(lambda c, y: (c, y), x, None, 2),
}


@pytest.mark.parametrize("call", CALLS)
def test_deques_are_no_arguments(call):
    agree(lambda j: CALLS[call](j, collections.deque([1.0, 2.0])))
