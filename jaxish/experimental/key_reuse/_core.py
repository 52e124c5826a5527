"""jax.experimental.key_reuse._core: what tests of libraries ask about the keys that a function uses."""

from ..._experimental.key_uses import Forward as Forward
from ..._experimental.key_uses import KeyReuseSignature as KeyReuseSignature
from ..._experimental.key_uses import Sink as Sink
from ..._experimental.key_uses import Source as Source
from ..._experimental.key_uses import assert_consumed as assert_consumed
from ..._experimental.key_uses import assert_unconsumed as assert_unconsumed
from ..._experimental.key_uses import check_key_reuse as check_key_reuse
from ..._experimental.key_uses import consume as consume
from ..._experimental.key_uses import function_type_signature as function_type_signature
