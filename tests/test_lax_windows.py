"""reduce_window and Fourier transforms."""

import random
from typing import Any

import jax
import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

import jaxish

WINDOWS = [
    "lax.reduce_window(f,0.,lax.add,(1,2),(1,1),'VALID')",
    "lax.reduce_window(f,-jnp.inf,lax.max,(1,2),(1,2),'SAME')",
    "lax.reduce_window(f,1.,lax.mul,(2,2),(1,1),[(1,0),(0,1)])",
    "lax.reduce_window(f,0.,lax.max,(2,2),(1,1),[(1,0),(0,1)],(2,1),(1,2))",
    "lax.reduce_window(f,0,lax.add,(1,2))",
    "lax.reduce_window(f,w,lax.add,(1,2))",
    "lax.reduce_window(f,0.,lax.add,(2,))",
    "lax.reduce_window(f,0.,lax.add,(1,0))",
    "lax.reduce_window(f,0.,lax.add,(1,5))",
    "lax.reduce_window(f,0.,lax.add,(2,2),(1,),'VALID')",
    "lax.reduce_window(f,0.,lax.add,(2,2),(1,1),'VALID',(1,))",
    "lax.reduce_window(f,0.,lax.add,(2,2),(1,1),'SAME',(1,1),(1,))",
    "lax.reduce_window(f,0.,lax.add,(2,2),(1,1),[(0,0)])",
    "lax.reduce_window((f,f),(0.,1.),lambda a,b:(a[0]+b[0],a[1]*b[1]),(1,2),(1,1),'VALID')",
    "lax.reduce_window(i,0,lax.add,(2,))",
    "lax.reduce_window(i,0,lax.min,(2,))",
    "lax.reduce_window(jnp.array([True,False]),False,lax.bitwise_or,(2,))",
    "lax.reduce_window_shape_tuple((5,5),(2,2),(1,2),((0,0),(0,0)))",
    "lax.reduce_window_shape_tuple((5,5),(2,2),(1,2),((0,0),(0,0)),(1,2),(2,1))",
    "lax.fft(jnp.ones(4)+0j,'FFT',(4,))",
    "lax.fft(jnp.ones(4),'FFT',(4,))",
    "lax.fft(jnp.ones(4),'fft',(4,))",
    "lax.fft(jnp.ones(4),lax.FftType.RFFT,(4,))",
    "lax.fft(jnp.ones(4),1,(4,))",
    "lax.fft(jnp.ones(4)+0j,'IRFFT',(6,))",
    "lax.fft(jnp.ones(4)+0j,'IFFT',4)",
    "lax.fft(jnp.ones(4)+0j,'IFFT',(3,))",
    "lax.fft(jnp.ones(4)+0j,'BLA',(4,))",
    "lax.fft(jnp.ones((4,4))+0j,'FFT',(4,4))",
    "lax.fft(i,'RFFT',(3,))",
    "lax.fft(w,'RFFT',(3,))",
    "lax.fft(jnp.ones(4,'bfloat16'),'RFFT',(4,))",
    "lax.fft(jnp.ones(4),'RFFT',())",
]


@pytest.mark.parametrize("expression", WINDOWS)
def test_windows_and_transforms_agree(expression: str) -> None:
    agree_on(expression)


LARGE_WINDOWS = [((9, 11), (5, 5)), ((6, 7, 6), (3, 4, 3)), ((2, 9, 8, 3), (1, 5, 4, 1))]


@pytest.mark.parametrize("shape, window", LARGE_WINDOWS)
@pytest.mark.parametrize("name, start", [("max", -np.inf), ("min", np.inf)])
def test_extrema_of_large_windows(shape: tuple[int, ...], window: tuple[int, ...], name: str, start: float) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(0, 3, shape).astype(np.float32)  # of which many are equal
    weights = generator.normal(size=shape).astype(np.float32)

    def extrema(j: Any, x: Any) -> Any:
        return j.lax.reduce_window(x, start, getattr(j.lax, name), window, (1,) * len(shape), "SAME")

    agree(lambda j: (extrema(j, x), j.grad(lambda x: (extrema(j, x) * weights).sum())(x)), rtol=1e-5, atol=1e-5)
    x[generator.random(shape) < 0.05] = np.nan
    agree(lambda j: extrema(j, x))


def test_extrema_of_large_windows_are_taken_along_one_dimension_after_the_other() -> None:
    function = lambda x: jaxish.lax.reduce_window(x, -np.inf, jaxish.lax.max, (5, 7), (1, 1), "SAME")
    nodes = jaxish.jit(function).trace(np.ones((9, 11), np.float32))._program.closed.graph.module.graph.nodes
    assert [node.args[1] for node in nodes if "max_pool2d" in node.name] == [[1, 7], [5, 1]]


@pytest.mark.parametrize("start", [-np.inf, np.float32(-np.inf), jaxish.numpy.float32(-np.inf)])
def test_gradients_of_windows_that_hold_nothing_but_the_start(start: Any) -> None:
    x, cotangents = np.full((3, 3), -np.inf, np.float32), np.arange(1, 5, dtype=np.float32).reshape(2, 2)
    x[0, 0] = 1

    def gradient(j: Any, start: Any) -> Any:
        largest = lambda x: j.lax.reduce_window(x, start, j.lax.max, (2, 2), (1, 1), "VALID")
        return lambda x: j.vjp(largest, x)[1](cotangents)[0]

    expected = gradient(jax, -np.inf)(x)
    np.testing.assert_array_equal(gradient(jaxish, start)(x), expected)
    np.testing.assert_array_equal(jaxish.jit(gradient(jaxish, start))(x), expected)
    made_within = jaxish.jit(lambda x: gradient(jaxish, jaxish.numpy.asarray(start))(x))
    np.testing.assert_array_equal(made_within(x), expected)


@pytest.mark.parametrize("seed", range(40))
def test_reduce_window_over_drawn_windows(seed: int) -> None:
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    shape = [choose.randint(1, 5) for _ in range(choose.randint(1, 4))]
    window, strides = [choose.randint(1, 3) for _ in shape], [choose.randint(1, 2) for _ in shape]
    base, dilation = ([choose.choice([1, 1, 1, 2]) for _ in shape] for _ in range(2))
    padding = choose.choice(
        ["SAME", "VALID", "SAME_LOWER", [(choose.randint(0, 2), choose.randint(0, 2)) for _ in shape]]
    )
    dtype, name = choose.choice(["float32", "float32", "int32", "uint8"]), choose.choice(["add", "max", "min", "mul"])
    start = {
        "add": 0,
        "mul": 1,
        "max": -np.inf if dtype == "float32" else 0,
        "min": np.inf if dtype == "float32" else 100,
    }[name]
    start = 3 if choose.random() < 0.2 else start
    x = numbers.permutation(int(np.prod(shape))).reshape(shape) % 9 if dtype != "float32" else numbers.random(shape)

    def program(jax: Any) -> Any:
        operand, init = jax.numpy.asarray(x.astype(dtype)), np.array(start, dtype)

        def reduced(t: Any) -> Any:
            return jax.lax.reduce_window(t, init, getattr(jax.lax, name), window, strides, padding, base, dilation)

        if dtype != "float32" or name == "mul" or start == 3 or max(dilation) > 1:
            return reduced(operand)
        slope = jax.grad(lambda t: (reduced(t) ** 2).sum()) if np.isfinite(start) else reduced
        return reduced(operand), slope(operand), jax.vmap(reduced)(operand[None])

    agree(program, rtol=1e-4)
