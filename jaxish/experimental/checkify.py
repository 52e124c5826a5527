"""jax.experimental.checkify: errors of jitted functions as values."""

from .._experimental.checkify import Error as Error
from .._experimental.checkify import ErrorCategory as ErrorCategory
from .._experimental.checkify import JaxRuntimeError as JaxRuntimeError
from .._experimental.checkify import all_checks as all_checks
from .._experimental.checkify import automatic_checks as automatic_checks
from .._experimental.checkify import check as check
from .._experimental.checkify import check_error as check_error
from .._experimental.checkify import checkify as checkify
from .._experimental.checkify import debug_check as debug_check
from .._experimental.checkify import div_checks as div_checks
from .._experimental.checkify import float_checks as float_checks
from .._experimental.checkify import index_checks as index_checks
from .._experimental.checkify import init_error as init_error
from .._experimental.checkify import nan_checks as nan_checks
from .._experimental.checkify import user_checks as user_checks
