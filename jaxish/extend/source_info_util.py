"""jax.extend.source_info_util: stacks of names around operations."""

from .._core.user_frames import register_exclusion as register_exclusion
from .._jaxprs.source_info import NameStack as NameStack
from .._jaxprs.source_info import SourceInfo as SourceInfo
from .._jaxprs.source_info import current as current
from .._jaxprs.source_info import current_name_stack as current_name_stack
from .._jaxprs.source_info import extend_name_stack as extend_name_stack
from .._jaxprs.source_info import new_name_stack as new_name_stack
from .._jaxprs.source_info import new_source_info as new_source_info
from .._jaxprs.source_info import reset_name_stack as reset_name_stack
from .._jaxprs.source_info import set_name_stack as set_name_stack
from .._jaxprs.source_info import summarize as summarize
from .._jaxprs.source_info import transform_name_stack as transform_name_stack
from .._jaxprs.source_info import user_context as user_context
