"""Neural networks as pairs of functions: `init_fun(rng, input_shape)` and `apply_fun(params, inputs, **kwargs)`."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.array import Array
from .._lax import elementwise as lax_elementwise
from .._lax.convolution import (
    conv_general_dilated,
    conv_general_shape_tuple,
    conv_transpose,
    conv_transpose_shape_tuple,
    padtype_to_pads,
)  # fmt: skip
from .._lax.windows import reduce_window, reduce_window_shape_tuple
from .._nn import activations
from .._nn.distributions import standardize
from .._nn.initializers import glorot_normal, normal, ones, zeros
from .._numpy.contractions import dot
from .._numpy.creation import ones as ones_array
from .._numpy.elementary import exp, tanh
from .._numpy.joining import concatenate
from .._numpy.manipulation import expand_dims
from .._numpy.selection import where
from .._numpy.softmax import log_softmax, softmax
from .._random.integers import bernoulli
from .._random.keys import split

Layer = tuple[Callable[..., Any], Callable[..., Any]]
Initializer = Callable[..., Array]
Shape = tuple[int, ...]

glorot, randn, logsoftmax = glorot_normal, normal, log_softmax  # their names before jax.nn had them
_WEIGHTS, _BIAS, _SMALL_BIAS = glorot_normal(), normal(), normal(1e-6)


def Dense(out_dim: int, W_init: Initializer = _WEIGHTS, b_init: Initializer = _BIAS) -> Layer:
    """Return a dense layer: inputs W + b."""

    def init_fun(rng: Array, input_shape: Shape) -> tuple[Shape, Any]:
        w_key, b_key = split(rng)
        weights = W_init(w_key, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(b_key, (out_dim,)))

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        weights, bias = params
        return dot(inputs, weights) + bias

    return init_fun, apply_fun


def _convolution(
    specs: Sequence[str], out_chan: int, filter_shape: Sequence[int], W_init: Initializer | None, b_init: Initializer,
    shape_of: Callable[[Sequence[int], Sequence[int]], Any], convolve: Callable[[Array, Array], Array],
) -> Layer:  # fmt: skip
    inputs_spec, filter_spec, out_spec = specs
    make = W_init or glorot_normal(filter_spec.index("I"), filter_spec.index("O"))

    def init_fun(rng: Array, input_shape: Shape) -> tuple[Shape, Any]:
        channels = {"O": out_chan, "I": input_shape[inputs_spec.index("C")]}
        sizes = iter(filter_shape)
        kernel_shape = [channels[c] if c in channels else next(sizes) for c in filter_spec]
        w_key, b_key = split(rng)
        weights, bias = make(w_key, kernel_shape), b_init(b_key, [out_chan if c == "C" else 1 for c in out_spec])
        return tuple(shape_of(input_shape, kernel_shape)), (weights, bias)

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        weights, bias = params
        return convolve(inputs, weights) + bias

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Sequence[str], out_chan: int, filter_shape: Sequence[int],
    strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Initializer | None = None,
    b_init: Initializer = _SMALL_BIAS,
) -> Layer:  # fmt: skip
    """Return a convolution with a bias. `dimension_numbers` are those of `lax.conv_general_dilated`, as strings."""
    one = (1,) * len(filter_shape)
    steps = strides or one
    return _convolution(
        dimension_numbers, out_chan, filter_shape, W_init, b_init,
        lambda x, w: conv_general_shape_tuple(x, w, steps, padding, dimension_numbers),
        lambda x, w: conv_general_dilated(x, w, steps, padding, one, one, dimension_numbers=tuple(dimension_numbers)),
    )  # fmt: skip


def GeneralConvTranspose(
    dimension_numbers: Sequence[str], out_chan: int, filter_shape: Sequence[int],
    strides: Sequence[int] | None = None, padding: Any = "VALID", W_init: Initializer | None = None,
    b_init: Initializer = _SMALL_BIAS,
) -> Layer:  # fmt: skip
    """Return a transposed convolution with a bias."""
    steps = strides or (1,) * len(filter_shape)
    return _convolution(
        dimension_numbers, out_chan, filter_shape, W_init, b_init,
        lambda x, w: conv_transpose_shape_tuple(x, w, steps, padding, dimension_numbers),
        lambda x, w: conv_transpose(x, w, steps, padding, dimension_numbers=tuple(dimension_numbers)),
    )  # fmt: skip


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
    beta_init: Initializer = zeros, gamma_init: Initializer = ones,
) -> Layer:  # fmt: skip
    """Return a normalization by the mean and variance along `axis`, then scaled (`scale`) and moved (`center`)."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Array, input_shape: Shape) -> tuple[Shape, Any]:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        beta_key, gamma_key = split(rng)
        beta = beta_init(beta_key, shape) if center else ()
        return input_shape, (beta, gamma_init(gamma_key, shape) if scale else ())

    def apply_fun(params: Any, x: Array, **kwargs: Any) -> Array:
        beta, gamma = params
        aligned = tuple(None if i in axes else slice(None) for i in range(x.ndim))
        found = standardize(x, axes, epsilon=epsilon)
        found = gamma[aligned] * found if scale else found
        return found + beta[aligned] if center else found

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Array], **fun_kwargs: Any) -> Layer:
    """Return a layer that applies a function, with `fun_kwargs`, to its inputs, and has no parameters."""
    return (lambda rng, input_shape: (input_shape, ())), (lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs))


Tanh = elementwise(tanh)
Relu = elementwise(activations.relu)
Exp = elementwise(exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(activations.softplus)
Sigmoid = elementwise(activations.sigmoid)
Elu = elementwise(activations.elu)
LeakyRelu = elementwise(activations.leaky_relu)
Selu = elementwise(activations.selu)
Gelu = elementwise(activations.gelu)


def _others(spec: str | None, rank: int) -> tuple[int, int]:
    """Return the places of the batch and the channels among `rank` dimensions, in order."""
    low, high = sorted((0, rank - 1) if spec is None else (spec.index("N"), spec.index("C")))
    return low, high


def _with_ones(sizes: Sequence[int], spec: str | None) -> Shape:
    found = list(sizes)
    for place in _others(spec, len(sizes) + 2):
        found.insert(place, 1)
    return tuple(found)


def _pooling(
    reducer: Callable[..., Array], start: float, averaged: bool, window_shape: Sequence[int],
    strides: Sequence[int] | None, padding: Any, spec: str | None,
) -> Layer:  # fmt: skip
    spatial_steps = strides or (1,) * len(window_shape)
    window, steps = _with_ones(window_shape, spec), _with_ones(spatial_steps, spec)

    def init_fun(rng: Array, input_shape: Shape) -> tuple[Shape, Any]:
        pads = padtype_to_pads(input_shape, window, steps, padding)
        one = (1,) * len(window)
        return reduce_window_shape_tuple(input_shape, window, steps, pads, one, one), ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        found = reduce_window(inputs, start, reducer, window, steps, padding)
        if not averaged:
            return found
        others = _others(spec, inputs.ndim)
        whole = ones_array([n for i, n in enumerate(inputs.shape) if i not in others], dtype=inputs.dtype)
        sizes = reduce_window(whole, 0.0, lax_elementwise.add, tuple(window_shape), tuple(spatial_steps), padding)
        return found / expand_dims(sizes, others)

    return init_fun, apply_fun


def MaxPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """Return a layer of the maxima of windows. `spec` names the dimensions: "NHWC" by default."""
    return _pooling(lax_elementwise.max, -math.inf, False, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """Return a layer of the sums of windows."""
    return _pooling(lax_elementwise.add, 0.0, False, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """Return a layer of the means of windows, over the elements that are not padding."""
    return _pooling(lax_elementwise.add, 0.0, True, window_shape, strides, padding, spec)


Flatten: Layer = (
    lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: inputs.reshape(inputs.shape[0], -1),
)
Identity: Layer = (lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: inputs)


def FanOut(num: int) -> Layer:
    """Return a layer that gives its input `num` times, in a list."""
    return (lambda rng, input_shape: ([input_shape] * num, ())), (lambda params, inputs, **kwargs: [inputs] * num)


FanInSum: Layer = (lambda rng, input_shape: (input_shape[0], ()), lambda params, inputs, **kwargs: sum(inputs))


def FanInConcat(axis: int = -1) -> Layer:
    """Return a layer that concatenates a list of inputs along `axis`."""

    def init_fun(rng: Array, input_shape: Sequence[Shape]) -> tuple[Shape, Any]:
        first = list(input_shape[0])
        first[axis] = sum(shape[axis] for shape in input_shape)
        return tuple(first), ()

    return init_fun, (lambda params, inputs, **kwargs: concatenate(inputs, axis))


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Return a layer that, in mode "train", keeps inputs with probability `rate`, and divides them by it.

    Its function needs a key, `rng`, and raises `ValueError` without.
    """

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument: apply_fun(params, inputs, "
                "rng=key), with a key from jax.random.key."
            )
        return where(bernoulli(rng, rate, inputs.shape), inputs / rate, 0) if mode == "train" else inputs

    return (lambda rng, input_shape: (input_shape, ())), apply_fun


def _keys(rng: Array | None, count: int) -> Any:
    return (None,) * count if rng is None else split(rng, count)


def serial(*layers: Layer) -> Layer:
    """Return the composition of layers, one after the other."""

    def init_fun(rng: Array, input_shape: Any) -> tuple[Any, list[Any]]:
        params = []
        for init, _ in layers:
            rng, key = split(rng)
            input_shape, param = init(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        for (_, apply), param, key in zip(layers, params, keys, strict=True):
            inputs = apply(param, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Return layers side by side: from a list of inputs to the list of their outputs."""

    def init_fun(rng: Array, input_shape: Any) -> Any:
        keys = split(rng, len(layers))
        made = [init(k, shape) for (init, _), k, shape in zip(layers, keys, input_shape, strict=True)]
        return zip(*made, strict=True)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> list[Any]:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [
            apply(param, x, rng=key, **kwargs)
            for (_, apply), param, x, key in zip(layers, params, inputs, keys, strict=True)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """Return a layer that is made when the shape of its inputs is known, by a function of it."""

    def init_fun(rng: Array, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
