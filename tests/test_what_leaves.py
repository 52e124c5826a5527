"""What may not leave a transformation, and what is no argument of one, against JAX: classes of errors, and key phrases."""

import pickle

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

OUT = {
    "NumPy's function": lambda j: j.grad(lambda x: np.exp(x))(1.0),
    "NumPy's function, vector": lambda j: j.grad(lambda x: np.exp(x))(np.zeros(3, np.float32)),
    "asarray in vjp": lambda j: j.vjp(lambda x: np.asarray(x) + 1, 1.0)[0],
    "asarray in jvp": lambda j: j.jvp(lambda x: np.sin(x), (1.0,), (1.0,)),
    "asarray within vmap": lambda j: j.grad(lambda x: j.vmap(lambda y: y * np.asarray(x))(np.ones(2)).sum())(1.0),
    "asarray of an outer level": lambda j: j.grad(lambda x: j.grad(lambda y: y * np.asarray(x))(2.0))(1.0),
    "float": lambda j: j.grad(lambda x: x * float(x))(1.0),
    "int": lambda j: j.grad(lambda x: x * int(x))(1.0),
    "tolist": lambda j: j.grad(lambda x: x * x.tolist())(1.0),
    "tobytes": lambda j: j.grad(lambda x: (x.tobytes(), x)[1])(1.0),
    "pickle": lambda j: j.grad(lambda x: (pickle.dumps(x), x)[1])(1.0),
    "bool": lambda j: j.grad(lambda x: x * 2 if x > 0 else x)(1.0),
    "device_get": lambda j: j.grad(lambda x: j.device_get(x) * 2)(1.0),
    "a constant": lambda j: j.grad(lambda x: x * np.asarray(j.numpy.ones(()) * 2))(1.0),
    "stop_gradient": lambda j: j.grad(lambda x: x * np.asarray(j.lax.stop_gradient(x)))(3.0),
    "a comparison": lambda j: j.grad(lambda x: x * np.asarray(x > 0))(1.0),
    "of NumPy's side": lambda j: j.grad(lambda x: (np.ones(2, np.float32) * x).sum())(1.0),
    "item": lambda j: j.grad(lambda x: x * x.item())(3.0),
    "after the end": lambda j: (
        lambda kept: (j.grad(lambda x: (kept.append(j.lax.stop_gradient(x)), x)[1])(3.0), kept[0] + 1)
    )([]),
}


@pytest.mark.parametrize("name", OUT)
def test_what_is_differentiated_stays(name):
    agree(OUT[name], weak=False)


class Wrapped:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


ARGUMENTS = {
    "jit": lambda j, x: j.jit(lambda x: x)(x),
    "grad": lambda j, x: j.grad(lambda x: x)(x),
    "vmap": lambda j, x: j.vmap(lambda x: x)(x),
    "jvp": lambda j, x: j.jvp(lambda x: x, (x,), (x,)),
    "vjp": lambda j, x: j.vjp(lambda x: x, x),
    "linearize": lambda j, x: j.linearize(lambda x: x, x),
    "scan": lambda j, x: j.lax.scan(lambda c, x: (c, x), 0.0, x),
    "cond": lambda j, x: j.lax.cond(True, lambda x: x, lambda x: x, x),
    "checkpoint": lambda j, x: j.checkpoint(lambda x: x)(x),
    "add": lambda j, x: j.lax.add(j.numpy.ones(2), x),
}
VALUES = {
    "object": lambda j: np.array([1, 2], object),
    "text": lambda j: np.array("hello"),
    "with __jax_array__": lambda j: Wrapped(j.numpy.ones(2)),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("transformation", ARGUMENTS)
def test_what_is_no_argument(transformation, value):
    if (transformation, value) == ("add", "with __jax_array__"):
        pytest.skip("lax takes it here, as jax.numpy does")
    agree(lambda j: ARGUMENTS[transformation](j, VALUES[value](j)))


PHRASES = {
    "not a valid JAX type": lambda j: j.grad(lambda x: x)(np.array([1, 2], object)),
    "was passed to add at position 1": lambda j: j.lax.add(j.numpy.ones(2), np.array("hello")),
    "during abstractification": lambda j: j.jit(lambda x: x)(Wrapped(j.numpy.ones(2))),
    "numpy.ndarray conversion": lambda j: j.grad(lambda x: np.exp(x))(1.0),
}


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases(phrase):
    for j in (jax, jaxish):
        with pytest.raises((TypeError, ValueError), match=phrase):
            PHRASES[phrase](j)


CONVERSIONS = {
    "bool": bool, "not": lambda x: not x, "int": int, "float": float, "complex": complex, "index": lambda x: range(9)[x],
    "member": lambda x: x in [x + 1],
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3,)])
def test_numbers_that_arrays_do_not_become(name, shape):
    for dtype in ("float32", "int32"):
        for transformation in ("jit", "vmap", "grad"):
            x = np.ones(shape, dtype)
            agree(lambda j, x, to=transformation: getattr(j, to)(CONVERSIONS[name])(j.numpy.asarray(x)), x, weak=False)
