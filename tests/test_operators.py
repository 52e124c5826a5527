"""The table of operators, against what torch and JAX say of them, and the tables that stand on it."""

import jax
import jax.extend.core.primitives
import pytest
import torch

from jaxish._compile.loop_operators import OPERATORS, REDUCTIONS
from jaxish._core import operators
from jaxish._core.operators import Kind

ROWS = {packet: row for packet, row in operators.rows().items() if hasattr(packet, "overloads")}
LIKE_ELEMENTWISE = {
    "ldexp",  # to torch 2.9
    "_to_copy",
    "lift_fresh_copy",
    "full_like",
    "zeros_like",
    "ones_like",
    "complex",
    "real",
    "imag",
    "_conj",
    "_conj_physical",
}
JAX_NAMES = {
    value.name
    for module in (jax.lax, jax.lax.linalg, jax.extend.core.primitives)
    for value in vars(module).values()
    if isinstance(value, jax.extend.core.Primitive)
}
FUNCTIONS = {  # of jax.lax or jax.numpy, made of primitives
    "empty",
    "ones",
    "zeros",
    "full",
    "reduce_mean",
    "stop_gradient",
    "unstack",
    "getitem",
    "bitcast_convert_type",
}


def overloads(packet):
    """The overloads that take tensors and return them."""
    found = (getattr(packet, name) for name in packet.overloads() if "out" not in name)
    writes = lambda o: any(a.alias_info is not None and a.alias_info.is_write for a in o._schema.arguments)
    return [o for o in found if not writes(o) and any(str(a.type) == "Tensor" for a in o._schema.arguments)]


@pytest.mark.parametrize("packet", ROWS, ids=str)
def test_rows_agree_with_torchs_tags(packet):
    row = ROWS[packet]
    if row.name not in LIKE_ELEMENTWISE:
        assert any(torch.Tag.pointwise in o.tags for o in overloads(packet)) == row.is_elementwise


@pytest.mark.parametrize("packet", ROWS, ids=str)
def test_views_share_memory(packet):
    row = ROWS[packet]
    for overload in overloads(packet):
        aliasing = any(r.alias_info is not None for r in overload._schema.returns)
        if row.name not in ("reshape", "real", "imag", "_conj", "_unsafe_view", "lift_fresh_copy"):
            assert aliasing == row.is_view, overload


@pytest.mark.parametrize("row", [r for r in ROWS.values() if r.jax_name != r.name], ids=lambda r: r.name)
def test_names_are_jax_primitives(row):
    assert row.jax_name in JAX_NAMES | FUNCTIONS


def test_what_loops_spell_out_is_elementwise():
    # "div floor": with its rounding mode
    views = ("alias", "detach", "lift_fresh")
    for name in OPERATORS:
        assert operators.of(getattr(torch.ops.aten, name.split()[0])).is_elementwise or name in views, name
    for name in REDUCTIONS:
        assert operators.of(getattr(torch.ops.aten, name)).kind is Kind.REDUCTION
