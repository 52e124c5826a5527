"""Graphs changed node by node: what compilers need to have otherwise."""

from collections.abc import Callable

from torch import fx

from .graph_module import GraphModule


def rewritten(
    module: fx.GraphModule, wanted: Callable[[fx.Node], bool], change: Callable[[fx.Node], fx.Node | None]
) -> fx.GraphModule:
    """Return a copy of the graph in which `change` was called on the copy of each wanted node, or the graph itself.

    `change` may alter the node and make others, which come to stand before it, or after it if it is an input; a node
    that it returns is what the rest of the graph reads in place of the one it was given.
    """
    chosen = set(filter(wanted, module.graph.nodes))
    if not chosen:
        return module
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs = module.graph.find_nodes(op="placeholder")
    for node in inputs:
        copies[node] = graph.node_copy(node)
    for node in inputs:
        if node in chosen:
            copies[node] = change(copies[node]) or copies[node]
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node in chosen:
            with graph.inserting_before(copies[node]):
                copies[node] = change(copies[node]) or copies[node]
    return GraphModule(module, graph, "jaxish_graph")
