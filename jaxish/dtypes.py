"""jax.dtypes: dtype queries and the promotion rules."""

from ._core.dtypes import TypePromotionError as TypePromotionError
from ._core.dtypes import bfloat16 as bfloat16
from ._core.dtypes import canonicalize_dtype as canonicalize_dtype
from ._core.dtypes import extended as extended
from ._core.dtypes import finfo as finfo
from ._core.dtypes import float0 as float0
from ._core.dtypes import iinfo as iinfo
from ._core.dtypes import issubdtype as issubdtype
from ._core.dtypes import itemsize_bits as itemsize_bits
from ._core.dtypes import prng_key as prng_key
from ._core.dtypes import result_type as result_type
from ._core.dtypes import scalar_type_of as scalar_type_of
