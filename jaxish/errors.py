"""jax.errors: the error classes."""

from ._core.errors import ConcretizationTypeError as ConcretizationTypeError
from ._core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from ._core.errors import JAXIndexError as JAXIndexError
from ._core.errors import JaxprTypeError as JaxprTypeError
from ._core.errors import JaxRuntimeError as JaxRuntimeError
from ._core.errors import JAXTypeError as JAXTypeError
from ._core.errors import KeyReuseError as KeyReuseError
from ._core.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from ._core.errors import TracerArrayConversionError as TracerArrayConversionError
from ._core.errors import TracerBoolConversionError as TracerBoolConversionError
from ._core.errors import TracerIntegerConversionError as TracerIntegerConversionError
from ._core.errors import UnexpectedTracerError as UnexpectedTracerError
