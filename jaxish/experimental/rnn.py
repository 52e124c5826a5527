"""jax.experimental.rnn: LSTMs with the weights in one vector."""

from .._experimental.rnn import get_num_params_in_lstm as get_num_params_in_lstm
from .._experimental.rnn import init_lstm_weight as init_lstm_weight
from .._experimental.rnn import lstm as lstm
from .._experimental.rnn import lstm_bwd as lstm_bwd
from .._experimental.rnn import lstm_fwd as lstm_fwd
from .._experimental.rnn import lstm_ref as lstm_ref
from .._experimental.rnn import rnn_abstract_eval as rnn_abstract_eval
from .._experimental.rnn import rnn_bwd_abstract_eval as rnn_bwd_abstract_eval
from .._experimental.rnn import swap_lstm_gates as swap_lstm_gates
from .._experimental.rnn import unpack_lstm_weights as unpack_lstm_weights
