"""jax.test_util: derivatives held against finite differences."""

from ._transforms.gradient_checks import check_grads as check_grads
from ._transforms.gradient_checks import check_jvp as check_jvp
from ._transforms.gradient_checks import check_vjp as check_vjp
