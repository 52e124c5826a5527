"""jax.stages: what a jitted function passes through on its way to compiled code."""

from ._transforms.stages import ArgInfo as ArgInfo
from ._transforms.stages import Compiled as Compiled
from ._transforms.stages import CompilerOptions as CompilerOptions
from ._transforms.stages import Lowered as Lowered
from ._transforms.stages import Traced as Traced
from ._transforms.stages import Wrapped as Wrapped
