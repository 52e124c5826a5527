"""jax.nn.initializers: functions (key, shape, dtype) -> initial weights."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from .._core import dtypes
from .._core.array import Array
from .._core.dimensions import canonical_shape, each_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._numpy import creation, elementary, manipulation
from .._random import keys, multivariate, uniforms
from .._random.sharded import takes_out_sharding

Axes = int | Sequence[int]


@runtime_checkable
class Initializer(Protocol):
    """A function that returns initial weights of a shape and dtype, drawn with a key."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
        """Return the weights."""
        raise NotImplementedError


def _float(dtype: Any) -> Any:
    return dtypes.canonicalize_dtype(np.float64) if dtype is None else dtypes.requested_dtype(dtype, "initializer")


def _initializer(make: Callable[[Any, Any, Any], Any], dtype: Any = None) -> Initializer:
    """Return the initializer that draws by `make(key, shape, dtype)`, with a default dtype."""
    drawn: Any = takes_out_sharding(make)

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        return drawn(key, shape, _float(dtype), out_sharding=out_sharding)

    return init


def zeros(
    key: ArrayLike,
    shape: Shape,
    dtype: DTypeLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return zeros; the key is there for the signature."""
    return _ZEROS(key, shape, dtype, out_sharding)


def ones(
    key: ArrayLike,
    shape: Shape,
    dtype: DTypeLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return ones; the key is there for the signature."""
    return _ONES(key, shape, dtype, out_sharding)


_ZEROS: Any = _initializer(lambda key, shape, dtype: creation.zeros(shape, dtype))
_ONES: Any = _initializer(lambda key, shape, dtype: creation.ones(shape, dtype))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer that fills with `value`."""
    return _initializer(lambda key, shape, dtype: creation.full(shape, value, dtype), dtype)


def _scaled(draw: Callable[[Any, Any, Any], Any], scale: Any, dtype: Any) -> Initializer:
    return _initializer(lambda key, shape, dtype: draw(key, shape, dtype) * creation.array(scale, dtype), dtype)


def uniform(scale: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer that draws uniformly from [0, scale)."""
    return _scaled(uniforms.uniform, scale, dtype)


def normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer that draws normals of this standard deviation."""
    return _scaled(uniforms.normal, stddev, dtype)


def truncated_normal(
    stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None, lower: ArrayLike = -2.0, upper: ArrayLike = 2.0
) -> Initializer:
    """Return an initializer that draws standard normals between `lower` and `upper`, times `stddev`."""
    return _scaled(lambda k, s, d: uniforms.truncated_normal(k, lower, upper, s, d), stddev, dtype)


def _fans(shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor with default in_axis. "
            "Must be at least 2D or specify in_axis explicitly."
        )

    def size(axes: Axes) -> int:
        return math.prod(shape[operator.index(a)] for a in each_of(axes))

    field = math.prod(shape) / size(in_axis) / size(out_axis) / size(batch_axis)
    return size(in_axis) * field, size(out_axis) * field


_DENOMINATORS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}
# Standard deviations of the standard normal within two, real and complex.
_CUT_REAL, _CUT_COMPLEX = 0.87962566103423978, 0.95311164380491208


def variance_scaling(
    scale: ArrayLike,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Return an initializer whose variance is `scale` divided by the number of inputs, of outputs, or a mean of them.

    The initializer raises `ValueError` for an unknown mode or distribution, and for a shape with too few dimensions.
    """

    def make(key: Any, shape: Any, dtype: Any) -> Array:
        sizes = canonical_shape(shape)
        fans = _fans(sizes, in_axis, out_axis, batch_axis)
        if mode not in _DENOMINATORS:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        variance = creation.array(scale / _DENOMINATORS[mode](*fans), dtype)
        return _spread(key, sizes, dtype, distribution, variance)

    return _initializer(make, dtype)


def _spread(key: Any, shape: tuple[int, ...], dtype: Any, distribution: str, variance: Any) -> Any:
    real = dtypes.issubdtype(dtype, np.floating)
    if distribution == "normal":
        return uniforms.normal(key, shape, dtype) * elementary.sqrt(variance)  # pyright: ignore
    if distribution == "truncated_normal":
        deviation: Any = elementary.sqrt(variance) / creation.array(_CUT_REAL if real else _CUT_COMPLEX, dtype)  # pyright: ignore
        if real:
            return uniforms.truncated_normal(key, -2, 2, shape, dtype) * deviation
        return _complex_truncated_normal(key, 2, shape, dtype) * deviation
    if distribution == "uniform":
        if real:
            return uniforms.uniform(key, shape, dtype, -1) * elementary.sqrt(3 * variance)
        return _complex_uniform(key, shape, dtype) * elementary.sqrt(variance)
    raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")


def _complex_uniform(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return complex numbers drawn uniformly from the disk of radius sqrt(2)."""
    key_r, key_theta = keys.split(key)
    part = np.finfo(dtype).dtype
    r: Any = elementary.sqrt(2 * uniforms.uniform(key_r, shape, part)).astype(dtype)  # pyright: ignore
    theta = 2 * np.pi * uniforms.uniform(key_theta, shape, part).astype(dtype)  # pyright: ignore
    return r * elementary.exp(1j * theta)


def _complex_truncated_normal(key: Any, upper: float, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return complex normals within the disk of radius `upper`."""
    key_r, key_theta = keys.split(key)
    part = np.finfo(dtype).dtype
    mass: Any = 1 - elementary.exp(creation.array(-(upper**2), dtype))  # pyright: ignore
    t = mass * uniforms.uniform(key_r, shape, part).astype(dtype)  # pyright: ignore
    theta = 2 * np.pi * uniforms.uniform(key_theta, shape, part).astype(dtype)  # pyright: ignore
    return elementary.sqrt(-elementary.log(1 - t)) * elementary.exp(1j * theta)  # pyright: ignore


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Return Glorot's uniform initializer: variance 1 / mean of inputs and outputs."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Return Glorot's normal initializer: variance 1 / mean of inputs and outputs, cut at two deviations."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Return LeCun's uniform initializer: variance 1 / inputs."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Return LeCun's normal initializer: variance 1 / inputs, cut at two deviations."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Return He's uniform initializer: variance 2 / inputs."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Return He's normal initializer: variance 2 / inputs, cut at two deviations."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of uniformly distributed orthogonal matrices, times `scale`.

    Dimensions other than `column_axis` are rows. The initializer raises `ValueError` for fewer than two dimensions.
    """

    def make(key: Any, shape: Any, dtype: Any) -> Array:
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        if 0 in shape:
            return creation.zeros(shape, dtype)
        columns = shape[column_axis]
        q = multivariate.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        q = manipulation.reshape(q, (*np.delete(shape, column_axis).tolist(), columns))
        return creation.array(scale, dtype) * manipulation.moveaxis(q, -1, column_axis)  # pyright: ignore

    return _initializer(make, dtype)


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Return an initializer of convolution kernels that are an orthogonal matrix at the centre and zero elsewhere.

    The initializer raises `ValueError` unless the shape has 3 to 5 dimensions and no more inputs than outputs.
    """

    def make(key: Any, shape: Any, dtype: Any) -> Array:
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple((size - 1) // 2 for size in shape[:-2])
        return creation.zeros(shape, dtype).at[(*centre, ...)].set(matrix)  # pyright: ignore

    return _initializer(make, dtype)
