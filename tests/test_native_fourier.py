"""Fourier transforms within native code: MKL's, called from C++."""

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish._compile import loop_fourier, loop_sources
from jaxish._compile.loop_values import Unsupported

pytestmark = pytest.mark.skipif(not all(loop_fourier._places()), reason="torch has no MKL")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


def numbers(shape, kind, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=shape)
    if kind.startswith("complex"):
        x = x + 1j * random.normal(size=shape)
    return x.astype(kind)


def kinds_of(name):
    real = () if name.startswith("ir") or name == "hfft" else ("float32",)
    return (*real, "complex64") if name not in ("rfft", "ihfft", "rfftn") else real


def written(function, *args):
    jitted = jaxish.jit(function)
    return loop_sources.graph_source(jitted.trace(*args)._program.closed.graph).text


def check(function, *args, rtol=1e-5):
    """Have a program written out as one function, and agree with JAX."""
    assert "transform<" in written(lambda *args: function(jaxish, *args), *args)
    wanted = np.asarray(jax.jit(lambda *args: function(jax, *args))(*args))
    agree(lambda j: j.jit(lambda *args: function(j, *args))(*args), rtol=rtol, atol=rtol * np.abs(wanted).max())


@pytest.mark.parametrize("size", [1, 2, 5, 8, 15, 64, 97])
@pytest.mark.parametrize("name", ONE)
def test_transforms_of_rows(name, size, compiled):
    for kind in kinds_of(name):
        size_of = {"n": size} if name in ("irfft", "hfft") else {}
        check(lambda j, x: getattr(j.numpy.fft, name)(2 * x, **size_of) + 1, numbers((3, size), kind))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 3), (3, 1), (0, 2, 3), (1, 2, 3)])
@pytest.mark.parametrize("name", SEVERAL)
def test_transforms_along_several_dimensions(name, axes, compiled):
    for kind in kinds_of(name):
        check(lambda j, x: getattr(j.numpy.fft, name)(2 * x, axes=axes) + 1, numbers((2, 6, 5, 4), kind))


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
@pytest.mark.parametrize("name", SEVERAL)
def test_norms_in_both_precisions(name, norm, compiled):
    for kind in kinds_of(name):
        for wide in (kind, kind.replace("32", "64") if "float" in kind else "complex128"):
            with jaxish.enable_x64(True), jax.enable_x64(True):
                check(lambda j, x: getattr(j.numpy.fft, name)(x, norm=norm) * 3, numbers((4, 6), wide))


def test_the_steps_of_a_spectral_method_are_one_function(compiled):
    def burgers(j, u):
        waves = 1j * j.numpy.fft.rfftfreq(len(u), 1 / len(u))
        decay = j.numpy.exp(1e-3 * waves**2)

        def step(u_hat, _):
            square = j.numpy.fft.rfft(j.numpy.fft.irfft(u_hat) ** 2)
            return decay * (u_hat - 1e-3 * waves * square / 2), u_hat[1]

        return j.numpy.fft.irfft(j.lax.scan(step, j.numpy.fft.rfft(u), None, 20)[0])

    check(burgers, np.sin(np.arange(48) * 2 * np.pi / 48).astype(np.float32), rtol=1e-4)


def test_transforms_under_vmap_and_grad(compiled):
    x, filter = numbers((3, 20), "float32"), numbers((20,), "float32", seed=1)

    def power(j, x, filter):
        smooth = lambda x: j.numpy.fft.ifft(j.numpy.fft.fft(x) * j.numpy.fft.fft(filter)).real
        return j.vmap(j.grad(lambda x: (smooth(x) ** 3).sum()))(x)

    check(power, x, filter, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_derivatives_of_inverse_transforms_to_real_numbers(size, compiled):
    x, filter = numbers((3, size), "float32"), numbers((size,), "float32", seed=1)

    def loss(j, x, filter):
        rows = j.numpy.fft.irfft(j.numpy.fft.rfft(x) * j.numpy.fft.rfft(filter), size)
        return (j.numpy.fft.irfft2(j.numpy.fft.rfft2(rows), rows.shape) ** 3).sum()

    check(lambda j, x, filter: j.grad(lambda x: loss(j, x, filter))(x), x, filter, rtol=1e-4)
    check(lambda j, x, filter: j.vmap(j.grad(lambda x: loss(j, x[None], filter)))(x), x, filter, rtol=1e-4)
    second = lambda j, x, filter: j.grad(lambda x: (j.grad(lambda x: loss(j, x, filter))(x) ** 2).sum())(x)
    wanted = np.asarray(jax.jit(lambda *args: second(jax, *args))(x, filter))
    agree(lambda j: j.jit(lambda *args: second(j, *args))(x, filter), rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_a_torch_without_mkl_transforms_by_its_own_operators(compiled, monkeypatch):
    monkeypatch.setattr(loop_fourier, "_places", lambda: [None])
    x = numbers((3, 8), "float32")
    with pytest.raises(Unsupported, match="MKL"):
        written(lambda x: jaxish.numpy.fft.fft(2 * x), x)
    agree(lambda j: j.jit(lambda x: j.numpy.fft.fft(2 * x) + 1)(x), rtol=1e-5, atol=1e-4)


def test_numbers_are_those_of_torchs_operators(compiled):
    x = numbers((4, 96), "complex64")
    found = jaxish.jit(lambda x: jaxish.numpy.fft.fft(x + x))(x)
    assert np.array_equal(np.asarray(found), torch.fft.fft(2 * torch.tensor(x)).numpy())
