"""lax reductions, scans, sorting and positions."""

from typing import Any

import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

REDUCTIONS = [
    "lax.sort(jnp.array([3.,jnp.nan,-0.,0.,-jnp.inf]))",
    "lax.sort(jnp.array([3,1,2],'uint32'))",
    "lax.sort(jnp.array([True,False]))",
    "lax.sort((jnp.array([1,1,0]),jnp.array([3,2,1])))",
    "lax.sort((jnp.array([1,1,0]),jnp.array([3,2,1])),num_keys=2)",
    "lax.sort((jnp.array([1,1,0]),jnp.array([3,2])),num_keys=2)",
    "lax.sort((jnp.array([1,1,0]),jnp.array([3,2,1])),num_keys=3)",
    "lax.sort(f,dimension=4)",
    "lax.sort(f,dimension=0)",
    "lax.sort(w)",
    "lax.sort(jnp.array([1+2j,1-1j,0]))",
    "lax.sort(())",
    "lax.sort([f,f])",
    "lax.sort_key_val(jnp.array([2,1]),jnp.array([1.,2.]))",
    "lax.sort_key_val(w,w)",
    "lax.top_k(jnp.array([1.,3.,3.,jnp.nan]),2)",
    "lax.top_k(f,2,axis=0)",
    "lax.top_k(f,4)",
    "lax.top_k(f,-1)",
    "lax.top_k(f,0)",
    "lax.top_k(w,0)",
    "lax.top_k(jnp.array([1,3,3],'uint8'),2)",
    "lax.approx_max_k(jnp.array([1.,3.,2.]),2)",
    "lax.approx_min_k(jnp.array([1.,3.,2.]),2)",
    "lax.approx_max_k(jnp.array([1,3,2]),2)",
    "lax.approx_max_k(jnp.round(jnp.sin(jnp.arange(90.)),1).reshape(3,30),7)",
    "lax.approx_min_k(jnp.round(jnp.sin(jnp.arange(90.)),1).reshape(3,30),2,0)",
    "lax.approx_min_k(jnp.array([0.,-0.,1.,-jnp.inf,0.,-0.],'bfloat16'),5)",
    "lax.approx_max_k(jnp.array([1.,3,2]),2,aggregate_to_topk=False)",
    "lax.approx_max_k(jnp.array([1.,3,2]),4)",
    "lax.approx_max_k(f,2,0)",
    "lax.approx_max_k(f,2,3)",
    "lax.argmax(f,0,jnp.int32)",
    "lax.argmax(f,0,jnp.float32)",
    "lax.argmax(f,2,jnp.int32)",
    "lax.argmax(f,-1,jnp.int32)",
    "lax.argmax(f,None,jnp.int32)",
    "lax.argmax(jnp.array([1.,jnp.nan,3.]),0,jnp.int32)",
    "lax.argmin(jnp.array([1.,jnp.nan,3.]),0,jnp.uint8)",
    "lax.argmin(jnp.array([2,1,1],'uint32'),0,jnp.uint8)",
    "lax.argmax(jnp.array([1j]),0,jnp.int32)",
    "lax.argmax(jnp.zeros((0,2)),0,jnp.int32)",
    "lax.argmax(jnp.array([True,False]),0,jnp.int32)",
    "lax.reduce_sum(f,(0,))",
    "lax.reduce_sum(f,(-1,))",
    "lax.reduce_sum(f,(0,0))",
    "lax.reduce_sum(f,(4,))",
    "lax.reduce_sum(f,0)",
    "lax.reduce_sum(jnp.array([True]),(0,))",
    "lax.reduce_sum(w,())",
    "lax.reduce_max(jnp.zeros((0,)),(0,))",
    "lax.reduce_max(jnp.zeros((0,),int),(0,))",
    "lax.reduce_min(jnp.zeros((0,),bool),(0,))",
    "lax.reduce_max(jnp.array([1j,2]),(0,))",
    "lax.reduce_and(f,(0,))",
    "lax.reduce_and(jnp.array([7,3],int),(0,))",
    "lax.reduce_or(jnp.array([7,8],'uint32'),(0,))",
    "lax.reduce_xor(jnp.array([7,3],int),(0,))",
    "lax.reduce_xor(jnp.array([True,True]),(0,))",
    "lax.reduce_and(jnp.array([True,True]),(0,))",
    "lax.reduce_prod(f,(0,1))",
    "lax.reduce_prod(jnp.array([True]),(0,))",
    "lax.reduce(f,0.,lax.add,(0,))",
    "lax.reduce(f,1.,lax.add,(0,))",
    "lax.reduce(f,0,lax.add,(0,))",
    "lax.reduce(f,w,lax.max,(0,))",
    "lax.reduce((f,f),(0.,1.),lambda a,b:(a[0]+b[0],a[1]*b[1]),(1,))",
    "lax.reduce(f,0.,lax.add,(7,))",
    "lax.reduce(f,0.,lambda a,b:a>b,(0,))",
    "lax.reduce((f,f[0]),(0.,1.),lambda a,b:(a[0]+b[0],a[1]*b[1]),(1,))",
    "lax.reduce(w,w,lax.add,())",
    "lax.reduce({'a':f},{'a':0.},lambda x,y:{'a':x['a']+y['a']},(0,))",
    "lax.cumsum(f)",
    "lax.cumsum(f,1,True)",
    "lax.cumsum(f,-1)",
    "lax.cumsum(f,2)",
    "lax.cumsum(jnp.array([True,True]))",
    "lax.cummax(jnp.array([True,True]))",
    "lax.cumprod(jnp.array([1,2],'int8'))",
    "lax.cummax(jnp.array([1.,jnp.nan,2.]))",
    "lax.cumlogsumexp(f,1)",
    "lax.cumlogsumexp(i)",
    "lax.cumlogsumexp(jnp.array([-jnp.inf,-jnp.inf,1.]))",
    "lax.cumsum(w)",
    "lax.cumsum(jnp.array([True]),-1)",
    "lax.reduce_sum(jnp.array([True]),(1,))",
    "lax.reduce_and(i,(1,))",
    *(f"lax.{name}(arr([2+1j,2+3j,1+9j,2+3j],'complex64'),0,{r})" for name in ("cummax", "cummin") for r in (0, 1)),
]


@pytest.mark.parametrize("expression", REDUCTIONS)
def test_reductions_scans_and_sorts_agree(expression: str) -> None:
    agree_on(expression)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_equal_elements_share_the_derivative_of_a_running_extremum(name: str, dtype: str) -> None:
    values = np.array([[1, 3, 3, 2, 3, 0, 0, 5], [0, 1, 1, 1, 0, 0, 2, 2]], dtype)

    def program(jax: Any) -> Any:
        def total(x: Any) -> Any:
            return (getattr(jax.lax, name)(x, 1).real * jax.numpy.arange(1.0, 9.0)).sum()

        x = jax.numpy.asarray(values)
        return jax.grad(total)(x), jax.jit(jax.grad(total))(x), jax.jvp(total, (x,), (x,))

    agree(program)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int16", "uint32", "bool"])
def test_many_elements_are_sorted_stably_with_zeros_equal_and_nan_last(dtype: str) -> None:
    hard = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-30, 3.5])
    values = np.concatenate([np.tile(hard, 1700), np.random.default_rng(0).standard_normal(17000)])
    values = values if dtype not in ("int16", "uint32", "bool") else np.nan_to_num(values * 100, posinf=9, neginf=3)

    def program(jax: Any) -> Any:
        jnp = jax.numpy

        def sorts(x: Any) -> Any:
            rows, found = x.reshape(2, -1), jnp.sort(x)
            signs = jnp.signbit(jnp.nan_to_num(found)) if jnp.issubdtype(x.dtype, jnp.floating) else found
            return found, signs, jnp.argsort(x), jnp.argsort(x, descending=True), jnp.sort(rows.T, 0)

        with jax.enable_x64(True):
            x = jnp.asarray(values).astype(dtype)
            return sorts(x), jax.jit(jnp.argsort)(x), jax.jit(sorts)(x), jax.vmap(jnp.argsort)(x.reshape(2, -1))

    agree(program)


def test_many_sorted_elements_pass_their_derivatives_to_their_places() -> None:
    values = np.random.default_rng(0).standard_normal(40000).astype(np.float32)

    def program(jax: Any) -> Any:
        def weighed(x: Any) -> Any:
            return (jax.numpy.sort(x) * jax.numpy.arange(40000.0)).sum()

        x = jax.numpy.asarray(values)
        return jax.grad(weighed)(x), jax.jit(jax.grad(weighed))(x), jax.jvp(jax.numpy.sort, (x,), (x * 2,))

    agree(program)
