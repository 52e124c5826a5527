"""jax.extend.ifrt_programs: programs for JAX's runtime (IFRT), which is not here, so that they are refused."""

from typing import Any, NoReturn


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} is not supported: there is no IFRT below torch. jax.jit(f).lower(x).compile() gives a program that runs, "
        "jax.export one that can be stored."
    )


class ifrt_programs:
    """The makers of programs."""

    @staticmethod
    def make_hlo_program(mlir_module: str | bytes) -> NoReturn:
        """Refused."""
        _refuse("make_hlo_program")

    @staticmethod
    def make_plugin_program(data: str | bytes) -> NoReturn:
        """Refused."""
        _refuse("make_plugin_program")

    @staticmethod
    def make_plugin_compile_options() -> NoReturn:
        """Refused."""
        _refuse("make_plugin_compile_options")

    @staticmethod
    def make_xla_compile_options(*args: Any) -> NoReturn:
        """Refused."""
        _refuse("make_xla_compile_options")

    @staticmethod
    def make_colocated_python_program(*args: Any) -> NoReturn:
        """Refused."""
        _refuse("make_colocated_python_program")
