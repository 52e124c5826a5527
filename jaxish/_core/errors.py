"""The error classes of `jax.errors`, and the sentences that more than one place raises them with.

Every message says what was found, what was expected and what to do.
"""

from torch import Tensor


class NoReverseMode(ValueError):
    """A loop of unknown length, which reverse mode does not go back through: forward mode does."""


class JAXTypeError(TypeError):
    """A `TypeError` that stems from the programming model rather than from one function."""


class JAXIndexError(IndexError):
    """An `IndexError` that stems from the programming model rather than from one function."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where its concrete value is needed."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a Python bool (`if x:`, `while x:`, `x and y`, `x in ...`)."""


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as a Python integer (`range(x)`, `list[x]`, a shape)."""


class TracerArrayConversionError(JAXTypeError):
    """A traced value was handed to code that needs a NumPy array."""


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index, so that the result's shape would depend on values."""


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after the transformation that made it had ended."""


class KeyReuseError(RuntimeError):
    """A random key was used twice while `jax_debug_key_reuse` was on."""


class JaxRuntimeError(RuntimeError):
    """An error raised while a compiled computation ran."""


class ShardingTypeError(Exception):
    """Operands that disagree about explicit axes of a mesh, or leave open how a result lies over them."""


class JaxprTypeError(TypeError):
    """A graph is not well formed, or an equation does not fit its variables."""


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic dimensions has no single answer."""


_HINTS = {
    TracerBoolConversionError: (
        "Attempted boolean conversion of traced array with shape {shape}. Its value is not known while the "
        "function is traced. Use jnp.where, lax.cond or lax.while_loop in place of Python control flow, or mark "
        "the argument as static (jit's static_argnums or static_argnames)."
    ),
    TracerIntegerConversionError: (
        "The __index__() method was called on traced array with shape {shape}. Python needs a concrete integer "
        "here, and the value is not known while the function is traced. Use lax.fori_loop or lax.dynamic_slice, "
        "or mark the argument as static (jit's static_argnums or static_argnames)."
    ),
    TracerArrayConversionError: (
        "The numpy.ndarray conversion method __array__() was called on traced array with shape {shape}. NumPy "
        "functions cannot be traced: use the function of the same name in jax.numpy, or jax.pure_callback."
    ),
    ConcretizationTypeError: (
        "Abstract tracer value encountered where concrete value is expected: traced array with shape {shape}. "
        "{detail} Mark the argument as static (jit's static_argnums or static_argnames) if its value must be known."
    ),
    NonConcreteBooleanIndexError: (
        "Array boolean indices must be concrete; got a traced array with shape {shape}. The shape of the result "
        "would depend on values: use jnp.where(mask, x, y), or a function with a size= argument such as jnp.nonzero."
    ),
    UnexpectedTracerError: (
        "Encountered an unexpected tracer. A function transformed by JAX had a side effect, allowing for a reference to "
        "an intermediate value with type {shape} to escape the scope of the transformation (jit, vmap, grad, scan, ...). "
        "JAX transformations require that functions explicitly return their outputs, and disallow saving intermediate "
        "values to global state, in an attribute or a closure. {detail}"
    ),
}


def way_from_torch(value: object) -> str:
    """Return a sentence, with a space before it, on how a torch tensor becomes an array; nothing for other values."""
    if not isinstance(value, Tensor):
        return ""
    return " A torch.Tensor is no JAX array; make it one, without a copy, by jaxish.from_torch(tensor)."


def tracer_error(cls: type[Exception], shape: object, detail: str = "", origin: str = "") -> Exception:
    """Return an error of class `cls` about a traced array of this type and shape, with its advice.

    `detail` says what was attempted, `origin` which argument the array depends on.
    """
    advice = f"See https://docs.jax.dev/en/latest/errors.html#jax.errors.{cls.__name__}"
    return cls("\n".join(filter(None, (_HINTS[cls].format(shape=shape, detail=detail), origin, advice))))
