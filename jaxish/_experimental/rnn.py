"""Long short-term memory networks with the weights in one vector, laid out as cuDNN has them.

For each layer and direction first the weights W_ih (4 hidden, inputs) and W_hh (4 hidden, hidden), then for each the
biases b_ih and b_hh (4 hidden); the four blocks of each are the gates i, f, g and o (as `torch.nn.LSTM` has them).
"""

import functools
import math
from typing import Any

import numpy as np

from .._core.array import Array
from .._core.avals import ShapedArray
from .._core.typing import ArrayLike
from .._lax.control_flow import scan
from .._lax.precision import PrecisionLike
from .._nn.activations import sigmoid
from .._numpy.contractions import matmul
from .._numpy.creation import asarray, zeros_like
from .._numpy.elementary import tanh
from .._numpy.joining import concatenate, stack
from .._numpy.ranges import arange
from .._numpy.selection import where
from .._random.uniforms import uniform
from .._transforms.autodiff import vjp
from .._transforms.jit import jit

Weights = dict[int, Array]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    directions = 2 if bidirectional else 1
    weights, biases = [], []
    for layer in range(num_layers * directions):
        inputs = input_size if layer < directions else directions * hidden_size
        weights += [(4 * hidden_size, inputs), (4 * hidden_size, hidden_size)]
        biases += [(4 * hidden_size,)] * 2
    return weights + biases


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """Return the length of the vector of weights."""
    return sum(map(math.prod, _shapes(input_size, hidden_size, num_layers, bidirectional)))


def init_lstm_weight(rng: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """Return weights drawn uniformly between -1/sqrt(hidden_size) and 1/sqrt(hidden_size), float32."""
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = float(np.sqrt(1.0 / hidden_size))
    return uniform(rng, (count,), "float32", -bound, bound)


def _split(weights: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    return [weights[end - math.prod(shape) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]


def swap_lstm_gates(
    weights: ArrayLike, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Return the weights with the blocks of the gates g and o exchanged (as MIOpen has them)."""
    swapped = []
    for part in _split(asarray(weights), _shapes(input_size, hidden_size, num_layers, bidirectional)):
        gates = part.reshape(4, -1)
        swapped.append(concatenate([gates[:2], gates[3:], gates[2:3]]).reshape(-1))
    return concatenate(swapped)


def unpack_lstm_weights(
    weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Weights, Weights, Weights, Weights]:
    """Return W_ih, W_hh, b_ih and b_hh, by the number of the layer; directions count as layers, in turn."""
    parts = _split(weights, _shapes(input_size, hidden_size, num_layers, bidirectional))
    half = len(parts) // 2
    w_ih, w_hh, b_ih, b_hh = (
        dict(enumerate(group)) for group in (parts[:half:2], parts[1:half:2], parts[half::2], parts[half + 1 :: 2])
    )
    return w_ih, w_hh, b_ih, b_hh


def _flipped(sequences: Array, lengths: Array) -> Array:
    """Return time-major sequences with their first `lengths` steps in reverse, and what follows them behind."""
    steps = sequences.shape[0]
    place = arange(steps)[:, None]
    source = where(place < lengths, lengths - 1 - place, place)
    return sequences[source, arange(sequences.shape[1])]


def _layer(
    xs: Array, h_0: Array, c_0: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, lengths: Array,
    precision: PrecisionLike,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return one direction's outputs for time-major inputs, zero after each sequence's end, and its last h and c."""
    # The inputs' share of all steps is one matrix product.
    given = matmul(xs, w_ih.T, precision=precision) + (b_ih + b_hh)

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        inputs, active = row
        i, f, g, o = (inputs + matmul(h, w_hh.T, precision=precision)).reshape(h.shape[0], 4, -1).swapaxes(0, 1)
        new_c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        new_h = sigmoid(o) * tanh(new_c)
        return (where(active, new_h, h), where(active, new_c, c)), where(active, new_h, 0)

    active = (arange(xs.shape[0])[:, None] < lengths)[..., None]
    (h, c), ys = scan(step, (h_0, c_0), (given, active))
    return ys, h, c


def lstm_ref(
    x: Array, h_0: Array, c_0: Array, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights, seq_lengths: Array,
    input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return what `lstm` returns, for weights by layer as `unpack_lstm_weights` gives them, which have the sizes."""
    return _layers(x, h_0, c_0, W_ih, W_hh, b_ih, b_hh, seq_lengths, num_layers, dropout, bidirectional, None)


@functools.partial(jit, static_argnums=(8, 9, 10, 11))
def _layers(
    x: Array, h_0: Array, c_0: Array, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights, seq_lengths: Array,
    num_layers: int, dropout: float, bidirectional: bool, precision: PrecisionLike,
) -> tuple[Array, Array, Array]:  # fmt: skip
    if seq_lengths.dtype != np.int32:
        raise NotImplementedError(f"`seq_lengths` can only be int32, got {seq_lengths.dtype}.")
    if dropout != 0.0:
        raise NotImplementedError(
            "Dropout between layers is not supported: it would need a key. Apply it with jax.random.bernoulli between "
            "calls of single layers."
        )
    ys = x.swapaxes(0, 1)
    finals = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(2 if bidirectional else 1):
            k = layer * (2 if bidirectional else 1) + direction
            xs = _flipped(ys, seq_lengths) if direction else ys
            weights = W_ih[k], W_hh[k], b_ih[k], b_hh[k]
            found, h, c = _layer(xs, h_0[k], c_0[k], *weights, seq_lengths, precision)
            outputs.append(_flipped(found, seq_lengths) if direction else found)
            finals.append((h, c))
        ys = concatenate(outputs, axis=-1)
    return ys.swapaxes(0, 1), stack([h for h, _ in finals]), stack([c for _, c in finals])


def lstm(
    x: Array, h_0: Array, c_0: Array, weights: Array, seq_lengths: Array, input_size: int, hidden_size: int,
    num_layers: int, dropout: float, bidirectional: bool, precision: PrecisionLike = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the outputs of an LSTM, (batch, time, directions * hidden), and its last states h and c.

    `x` is (batch, time, inputs); `h_0` and `c_0`, like the last states, (layers * directions, batch, hidden);
    `seq_lengths` says how many steps of each sequence count: outputs after them are zero. It runs on every device.
    Raises `NotImplementedError` for dropout and for lengths that are not int32.
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _layers(x, h_0, c_0, *parts, seq_lengths, num_layers, dropout, bidirectional, precision)


def lstm_fwd(
    x: Array, h_0: Array, c_0: Array, w: Array, seq_lengths: Array, input_size: int, hidden_size: int, num_layers: int,
    dropout: float, bidirectional: bool, precision: Any,
) -> tuple[tuple[Array, Array, Array], Any]:  # fmt: skip
    """Return the results of `lstm`, and what `lstm_bwd` needs."""
    static: Any = (input_size, hidden_size, num_layers, dropout, bidirectional, precision)
    results, pull = vjp(lambda x, h, c, w: lstm(x, h, c, w, seq_lengths, *static), x, h_0, c_0, w)
    return results, (pull, seq_lengths)


def lstm_bwd(
    input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool, precision: Any,
    residuals: Any, gradients: Any,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """Return the cotangents of x, h_0, c_0, the weights and (zero) the lengths. The sizes are in the residuals."""
    pull, seq_lengths = residuals
    return *pull(tuple(gradients)), zeros_like(seq_lengths)


def rnn_abstract_eval(
    x_aval: Any, h_0_aval: Any, c_0_aval: Any, w_aval: Any, seq_lengths_aval: Any, input_size: int, hidden_size: int,
    num_layers: int, dropout: float, bidirectional: bool, cudnn_allow_tf32: bool,
) -> Any:  # fmt: skip
    """Return the types of the results: outputs, last states, and of the memory that is kept for them, which is none."""
    batch, steps = x_aval.shape[:2]
    outputs = ShapedArray((batch, steps, (2 if bidirectional else 1) * hidden_size), x_aval.dtype)
    return outputs, h_0_aval, c_0_aval, ShapedArray((0,), np.float32)


def rnn_bwd_abstract_eval(
    dy_aval: Any, dhn_aval: Any, dcn_aval: Any, x_aval: Any, h0_aval: Any, c0_aval: Any, w_aval: Any, y_aval: Any,
    reserve_space_aval: Any, seq_lengths_aval: Any, input_size: int, hidden_size: int, num_layers: int, dropout: float,
    bidirectional: bool, cudnn_allow_tf32: bool,
) -> Any:  # fmt: skip
    """Return the types of the cotangents of x, h_0, c_0 and the weights."""
    return x_aval, h0_aval, c0_aval, w_aval
