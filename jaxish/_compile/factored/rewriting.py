"""The pass: which products of a graph are kept in factors, and the graph without them."""

import logging
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx

from ..._core import config, graph, machine, nodes, symbolic_sizes
from ..._core.graph import Graph, TensorType
from . import contraction, rules, terms
from .contraction import PRODUCTS_PER_NUMBER, Plan
from .terms import NotFactored, Value

_log = logging.getLogger("jaxish")

# Factors pay up to this share of the direct way's cost; and up to this if the product is larger than they are.
WORTH, WORTH_FOR_MEMORY = 0.8, 2.5


class _Analysis:
    """What each node of a graph is in factors. `held` are the products that are made as they stand."""

    def __init__(self, module: fx.GraphModule, written: set[int], held: set[fx.Node], refused: set[fx.Node]) -> None:
        self.values: dict[fx.Node, Value] = {}  # that need not be made, unless something else wants them
        self.plans: dict[fx.Node, Plan] = {}  # of sums, which are made of factors
        self.seeds: dict[fx.Node, None] = {}  # in the graph's order
        self._written, self._held = written, held
        for node in module.graph.nodes:
            if node.op == "call_function" and node not in refused:
                self._consider(node)
        self.needed = self._found_needed(module)

    def _consider(self, node: fx.Node) -> None:
        rule = rules.rule_of(node)
        if rule is None or not self._is_plain(node):
            return
        try:
            if self._lazy(node) and rules.sums(node) and self._is_reduced(node):
                self.plans[node] = contraction.plan(rule(node, self._operand))
            elif rules.is_seed(node):
                value = self._ordinary(node) if node in self._held else rule(node, self._ordinary)
                self.values[node] = terms.seeded(value, node)
                self.seeds[node] = None
            elif self._lazy(node) and not rules.sums(node):
                self.values[node] = rule(node, self._operand)
        except NotFactored:
            return

    def _operand(self, node: Any) -> Value:
        known = self.values.get(node) if isinstance(node, fx.Node) else None
        return self._ordinary(node) if known is None else known

    def _ordinary(self, node: Any) -> Value:
        """Return what a node makes as one factor."""
        if not isinstance(node, fx.Node) or graph.type_of(node) is None or not self._is_settled(node):
            raise NotFactored
        return terms.of_node(node, rules.shape_of(node))

    def _is_settled(self, node: fx.Node) -> bool:
        """Tell whether nothing writes into what the node makes."""
        value = node.meta.get("val")
        return not self._written or (isinstance(value, Tensor) and nodes.storage_of(value) not in self._written)

    def _is_plain(self, node: fx.Node) -> bool:
        type = graph.type_of(node)
        return type is not None and type.dtype.is_floating_point and self._is_settled(node)

    def _is_reduced(self, node: fx.Node) -> bool:
        """Tell whether a sum has far fewer elements than what it sums."""
        return 4 * rules.elements_of(node) <= max(rules.elements_of(n) for n in self._lazy(node))

    def _lazy(self, node: fx.Node) -> list[fx.Node]:
        return [n for n in rules.operands_of(node) if n in self.values]

    def _found_needed(self, module: fx.GraphModule) -> set[fx.Node]:
        """Return the nodes that have to be run."""
        pending = [n for n in module.graph.nodes if n.op == "output" or (n.op != "placeholder" and nodes.must_stay(n))]
        needed: set[fx.Node] = set()
        while pending:
            node = pending.pop()
            if node in needed:
                continue
            needed.add(node)
            plan = self.plans.get(node)
            pending.extend(node.all_input_nodes if plan is None else plan.value.nodes)
        return needed

    @property
    def used(self) -> dict[fx.Node, Plan]:
        """The plans by which something is made."""
        return {node: plan for node, plan in self.plans.items() if node in self.needed}

    def spares_nothing(self, node: fx.Node) -> bool:
        """Tell whether a planned sum would read, without its plan, only what is there anyway."""
        pending, seen = self._lazy(node), set()
        while pending:
            lazy = pending.pop()
            if lazy in seen or lazy in self.needed:
                continue
            seen.add(lazy)
            if lazy in self.seeds or not rules.is_view(lazy):
                return False
            pending += self._lazy(lazy)
        return True

    def pays(self, seed: fx.Node) -> bool:
        """Tell whether contracting factors is better than to make their product and to read it in each sum.

        A product of more memory than is allowed is not made as a whole, whatever that costs.
        """
        made = rules.elements_of(seed)
        type = graph.type_of(seed)
        if type is None or made > _most_elements(type):
            return True
        direct, factored = made + rules.products_of(seed) / PRODUCTS_PER_NUMBER, 0.0
        for plan in self.used.values():
            trees = [(t, term) for term, t in zip(plan.value.terms, plan.trees, strict=True) if seed in term.seeds]
            direct += made if trees else 0
            factored += sum({tree.key: tree.cost / len(term.seeds) for tree, term in trees}.values())
        is_large = made > sum(map(rules.elements_of, self.values[seed].nodes))
        return factored <= (WORTH_FOR_MEMORY if is_large else WORTH) * direct


def _analysed(module: fx.GraphModule) -> _Analysis:
    """Return what to keep in factors."""
    written = set().union(*(node.meta.get("writes", ()) for node in module.graph.nodes))
    held: set[fx.Node] = set()
    refused: set[fx.Node] = set()
    while True:
        found = _Analysis(module, written, held, refused)
        useless = {node for node in found.used if found.spares_nothing(node)}
        useless |= {node for node in found.values if node in found.needed and node not in found.seeds}
        wanted = {seed for seed in found.seeds.keys() - held if seed in found.needed or not found.pays(seed)}
        if not useless and not wanted:
            return found
        refused |= useless
        held |= wanted


class _Rewriter(fx.Interpreter):
    """Runs a graph, its sums of products by their plans."""

    def __init__(self, module: fx.GraphModule, plans: dict[fx.Node, Plan], needed: set[fx.Node]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._plans, self._needed = plans, needed

    def run_node(self, n: fx.Node) -> Any:
        plan = self._plans.get(n)
        if plan is not None and n in self._needed:
            type = graph.type_of(n)
            assert type is not None
            return plan.run(self.env, type.dtype, _most_elements(type))
        if n.op == "placeholder" or n in self._needed:
            return super().run_node(n)
        return None


def factored(body: Graph) -> Graph:
    """Return the graph with large products kept in factors where that is less work; else the graph itself."""
    module = body.module
    if symbolic_sizes.environment() is not None or not _has_seed(module):
        return body
    found = _analysed(module)
    if not found.used:
        return body
    if config.explain_per_example.value:
        for seed in (node for node in found.seeds if node not in found.needed):
            _explain(seed, found.values[seed])
    rewriter = _Rewriter(module, found.used, found.needed)

    def run(*inputs: Tensor) -> Sequence[Tensor]:
        return rewriter.run(*inputs, enable_io_processing=False)

    return graph.trace(run, body.in_types).graph


def _has_seed(module: fx.GraphModule) -> bool:
    """Tell whether a graph may have something to keep in factors: most have not."""
    return any(node.op == "call_function" and rules.is_seed(node) for node in module.graph.nodes)


def _most_elements(type: TensorType) -> int:
    """Return how many elements an array of this dtype may have that is made on the way to another."""
    limit = config.per_example_memory.value * 2**20
    if not limit:
        free = machine.free_memory(type.device)
        limit = 1 << (free // 16).bit_length() - 1  # a power of two, so that graphs are the same in the next process
    return limit // type.dtype.itemsize


def _explain(seed: fx.Node, value: Value) -> None:
    type = graph.type_of(seed)
    assert type is not None
    factors = " and ".join(str(list(rules.shape_of(node))) for node in value.nodes)
    size = rules.elements_of(seed) * type.dtype.itemsize
    line = getattr(seed.meta.get("val"), "created", None)
    where = "" if line is None else f", from {line[0].co_filename}:{line[1]}"
    _log.warning(f"A product of shape {list(type.shape)} is kept in factors {factors}: {size:,} bytes not made{where}.")
