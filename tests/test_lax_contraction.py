"""dot, dot_general and ragged_dot."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from expressions import agree_on
from oracle import agree

import jaxish
from jaxish._lax.control_flow.scan import Scan
from jaxish._lax.control_flow.while_loop import While

DOTS = [
    'lax.dot(m,arr([[1, 1], [1, 1]], "int32"))',
    'lax.dot(arr([[1, 1], [1, 1]], "float16"),jnp.ones((2, 2), "bfloat16"))',
    'lax.dot(m,arr([[1, 1], [1, 1]], "float16"))',
    'lax.dot(arr([[1, 1], [1, 1]], "bool"),arr([[1, 1], [1, 1]], "bool"))',
    'lax.dot(arr([[1, 1], [1, 1]], "int8"),arr([[1, 1], [1, 1]], "int8"))',
    'lax.dot(arr([[1, 1], [1, 1]], "int8"),arr([[1, 1], [1, 1]], "int8"),preferred_element_type=jnp.int32)',
    'lax.dot(arr([[1, 1], [1, 1]], "int8"),arr([[1, 1], [1, 1]], "int8"),preferred_element_type=jnp.float32)',
    "lax.dot(m,m,preferred_element_type=jnp.bfloat16)",
    "lax.dot(m,m,preferred_element_type=jnp.int32)",
    'lax.dot(arr([[1, 1], [1, 1]], "float16"),arr([[1, 1], [1, 1]], "float16"),preferred_element_type=jnp.float32)',
    'lax.dot(arr([[1, 1], [1, 1]], "float16"),arr([[1, 1], [1, 1]], "float16"),preferred_element_type=jnp.float64)',
    "lax.dot(w,w)",
    "lax.dot(1.,2.)",
    "lax.dot(f,f)",
    "lax.dot(f,f[0])",
    "lax.dot(f[0],f[0])",
    "lax.dot(m,jnp.ones((1, 2, 5, 5)))",
    "lax.dot(m,m,precision='highest')",
    "lax.dot(m,m,precision='foo')",
    "lax.dot(m,m,precision=lax.Precision.HIGH)",
    "lax.dot(m,m,precision=('high','default'))",
    "lax.dot(m,m,precision='float32')",
    "lax.dot(m,m,precision=None)",
    "lax.dot(m,m,precision=3)",
    "lax.dot(m,m,precision='BF16_BF16_F32')",
    "lax.dot(m,m,precision=lax.DotAlgorithmPreset.F32_F32_F32)",
    "lax.dot(m,m,precision=lax.DotAlgorithmPreset.F64_F64_F64)",
    "lax.dot(m,m,dimension_numbers=(((1,),(1,)),((),())))",
    "lax.dot_general(f,f,(((1,),(1,)),((0,),(0,))))",
    "lax.dot_general(f,f,(((1,),(1,)),((),())))",
    "lax.dot_general(f,f,(((1,),(0,)),((),())))",
    "lax.dot_general(f,f,(((1,),(5,)),((),())))",
    "lax.dot_general(f,f,(((1,1),(1,1)),((),())))",
    "lax.dot_general(f,f,(((1,),(1,)),((1,),(1,))))",
    "lax.dot_general(f,f,(((1,),(1,0)),((),())))",
    "lax.dot_general(f,f,(((-1,),(-1,)),((),())))",
    "lax.dot_general(f,f,(((),()),((0,),(1,))))",
    "lax.dot_general(f,f,(((),()),((),()))).shape",
    "lax.dot_general(f,f,((1,1),((),())))",
    "lax.dot_general(f,f,(([1],[1]),([],[])))",
    "lax.batch_matmul(m[None],m[None])",
    "lax.batch_matmul(m,m)",
    "lax.batch_matmul(w,w)",
    "lax.batch_matmul(m,m[None])",
    "lax.ragged_dot(jnp.ones((4,2)),jnp.ones((2,2,3)),jnp.array([1,3]))",
    "lax.ragged_dot(jnp.ones((4,2)),jnp.ones((2,2,3)),jnp.array([1,2]))",
    "lax.ragged_dot(jnp.ones((4,2)),jnp.ones((2,2,3)),jnp.array([1,3]),preferred_element_type=jnp.bfloat16)",
    "lax.ragged_dot(jnp.ones((4,2)),jnp.ones((3,2,3)),jnp.array([1,3]))",
    "repr(list(lax.FftType))",
    "repr(list(lax.Precision))",
    "repr(list(lax.DotAlgorithmPreset))",
    "lax.Precision('HIGH')",
    "str(lax.Precision.HIGH)",
    "repr(lax.Precision.HIGH)",
]


@pytest.mark.parametrize("expression", DOTS)
def test_dots_agree(expression: str) -> None:
    agree_on(expression)


@pytest.mark.parametrize("seed", range(60))
def test_any_dimension_numbers_and_dtypes(seed: int) -> None:
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    batch, contracted = choose.choice([0, 0, 1, 2]), choose.choice([0, 1, 1, 2])
    shared = [(f"b{k}", choose.randint(1, 3)) for k in range(batch)] + [
        (f"c{k}", choose.randint(1, 3)) for k in range(contracted)
    ]
    sides = [[*shared, *(("free", choose.randint(0, 3)) for _ in range(choose.choice([0, 1, 1, 2])))] for _ in range(2)]
    for side in sides:
        choose.shuffle(side)
    places = [{name: d for d, (name, _) in enumerate(side)} for side in sides]
    dims = tuple(
        tuple([place[f"{kind}{k}"] for k in range(count)] for place in places)
        for kind, count in (("c", contracted), ("b", batch))
    )
    dtypes = choose.choices(["float32", "int32", "uint8", "bool", "complex64", "float16", "uint32", "int8"], k=2)
    if choose.random() < 0.7:
        dtypes[1] = dtypes[0]
    values = [numbers.integers(0, 5, [n for _, n in side]).astype(d) for side, d in zip(sides, dtypes, strict=True)]
    preferred = choose.choice([None, None, None, "float32", "int32"])

    def program(jax: Any) -> Any:
        return jax.lax.dot_general(*map(jax.numpy.asarray, values), dims, preferred_element_type=preferred)

    if preferred and any(d == "complex64" for d in dtypes):
        pytest.skip("JAX refuses or warns, depending on the device")
    agree(program)


RAGGED = {  # shapes, group sizes, dimension numbers, the ragged dimension, the groups' dimension of rhs
    "kept in batches": ((2, 5, 3), (2, 4, 3, 6), [[1, 2, 1, 0], [2, 0, 2, 1]], (([2], [2]), ([0], [0])), 1, [1]),
    "kept behind another": ((4, 5, 3), (2, 3, 6), [[1, 1], [0, 5], [2, 3], [0, 0]], (([2], [1]), ([], [])), 1, [0]),
    "contracted in batches": ((2, 5, 3), (2, 5, 6), [[1, 2, 1], [2, 0, 3]], (([1], [1]), ([0], [0])), 1, []),
    "batched": ((2, 5, 3), (2, 5, 6), [1, 1], (([1], [1]), ([0], [0])), 0, []),
    "group taken": ((7, 5, 3), (4, 3, 6), [1, 1, 2, 1], (([2], [1]), ([], [])), 1, [1]),
    "no group": ((5, 3), (4, 3, 6), [1, 1, 2, 1], (([1], [1]), ([], [])), 0, []),
    "group of a contraction": ((5, 3), (5, 6), [1, 1], (([0], [0]), ([], [])), 0, [1]),
    "sizes that do not fit": ((2, 5, 3), (2, 5, 6), [[1, 2, 1]], (([1], [1]), ([0], [0])), 1, []),
    "ragged out of range": ((5, 3), (4, 3, 6), [1, 1, 2, 1], (([1], [1]), ([], [])), 2, [0]),
    "no sizes": ((5, 3), (4, 3, 6), 3, (([1], [1]), ([], [])), 0, [0]),
}


@pytest.mark.parametrize("case", RAGGED)
def test_ragged_dots(case):
    a, b, sizes, numbers, ragged, groups = RAGGED[case]
    random = np.random.default_rng(0)
    lhs, rhs = (random.normal(size=s).astype("float32") for s in (a, b))

    def program(j):
        which = j.lax.RaggedDotDimensionNumbers(numbers, [ragged], groups)
        return j.lax.ragged_dot_general(*map(j.numpy.asarray, (lhs, rhs, np.array(sizes, "int32"))), which)

    agree(program)


@pytest.mark.parametrize("axes", [(None, 0), (0, None), (None, 1), (1, None)], ids=str)
@pytest.mark.parametrize("side", ["matrix times vector", "vector times matrix"])
def test_a_batch_of_vectors_times_one_matrix_is_a_product_of_two(side, axes):
    """In graphs, as in a loop that is batched when it has been traced: the matrix is not repeated for each vector."""
    matrix, vectors = np.arange(16, dtype=np.float32).reshape(4, 4) % 7, np.linspace(-1, 1, 12, dtype=np.float32)
    vectors = vectors.reshape(3, 4) if 0 in axes else vectors.reshape(4, 3)
    given = (matrix, vectors) if axes[0] is None else (vectors, matrix)
    contracted = 1 if side == "matrix times vector" else 0

    def program(j):
        def function(a, b):
            matrix, vector = (a, b) if axes[0] is None else (b, a)
            step = lambda i, v: j.lax.dot_general(matrix, v, (((contracted,), (0,)), ((), ()))) * 0.5 + i
            return j.lax.fori_loop(0, 3, step, vector)

        return j.jit(j.vmap(function, axes))

    agree(lambda j: program(j)(*given))
    graph = program(jaxish).trace(*given)._program.closed.graph.module.graph
    (loop,) = [node.target for node in graph.nodes if isinstance(node.target, While | Scan)]
    called = {node.target for node in loop.body.module.graph.nodes}
    assert torch.ops.aten.mm.default in called and torch.ops.aten.bmm.default not in called
