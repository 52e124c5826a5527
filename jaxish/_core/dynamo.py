"""torch._dynamo, as late as can be: it takes 1.3 s of the processor to import.

Tracing needs fake tensors, and these want nothing of it but its settings and a switch: `FakeTensorMode` imports
`torch._dynamo.config` and reads it for each operator, and functions that Dynamo is not to look at
(`torch._compile._disable_dynamo`) import the package for `torch._dynamo.disable` (torch 2.9 to 2.13). A module of those two
stands in for it: as an attribute of torch, and while graphs are traced for those that import it. The package itself is
imported with the compiler, or when anything else of it is asked for.
"""

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame

from . import cache, symbolic_shapes
from .stand_ins import StandIn

_NAME = "torch._dynamo"

# Held while a thread imports the package for other reasons than a trace, and for a moment where a trace begins and ends. A
# fork waits for it: it would inherit a package half imported.
_turn = threading.Condition()
_under_way: list[int] = []  # the threads of all traces


def _after_fork() -> None:
    own = threading.get_ident()
    # Other threads and their traces are not inherited.
    _under_way[:] = [thread for thread in _under_way if thread == own]
    _turn.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_after_fork)


def import_all() -> None:
    """Import torch._dynamo, which makes torch's cache folder and notes it in the environment: neither is to stay."""
    if sys.modules.get(_NAME, _stand_in) is _stand_in:
        symbolic_shapes.import_all()
        sys.modules.pop(_NAME, None)
        with tempfile.TemporaryDirectory() as folder, cache.environment(TORCHINDUCTOR_CACHE_DIR=folder):
            import torch._dynamo  # noqa: F401


def import_between_traces() -> None:
    """Import torch._dynamo while no thread traces; to be called outside a trace, with no lock held.

    Making fake tensors of real ones imports `torch._dynamo.source`. Where one thread imports that and another the package,
    each waits for the other; Python then goes on with a module half made, and neither import succeeds in the process any more.
    """
    with _turn:
        _turn.wait_for(lambda: not _under_way)
        import_all()


@contextlib.contextmanager
def put_aside() -> Iterator[None]:
    """Within this context manager Dynamo does not look at frames, and need not be imported for fake tensors."""
    with _counted():
        is_absent = _NAME not in sys.modules
        if is_absent:
            sys.modules[_NAME] = _stand_in
        try:
            with _unseen():
                yield
        finally:
            if is_absent and sys.modules.get(_NAME) is _stand_in:
                del sys.modules[_NAME]


def put_off() -> contextlib.AbstractContextManager[None]:
    """Within this context manager what torch decomposes as it is called does not import Dynamo, if nothing has."""
    return put_aside() if _NAME not in sys.modules else contextlib.nullcontext()


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    thread = threading.get_ident()
    with _turn:
        _under_way.append(thread)
    try:
        yield
    finally:
        with _turn:
            _under_way.remove(thread)
            _turn.notify_all()


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    before = set_eval_frame(None)
    try:
        yield
    finally:
        set_eval_frame(before)


class _StandIn(StandIn):
    """What is taken for the package: its settings and what torch asks of it on its own."""

    config: types.ModuleType

    # functorch puts compiled autograd aside, which nobody can have turned on before the import.
    compiled_autograd = types.SimpleNamespace(_disable=contextlib.nullcontext)

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """Return the function so that Dynamo does not look at what it does."""

        @functools.wraps(function)
        def unseen(*args: Any, **kwargs: Any) -> Any:
            with _unseen():
                return function(*args, **kwargs)

        return unseen


_stand_in = _StandIn(_NAME, import_all, is_package=True)


def _alone(name: str) -> types.ModuleType:
    """Import a module without its package."""
    package = importlib.util.find_spec(name.rpartition(".")[0])
    assert package is not None
    spec = importlib.machinery.PathFinder.find_spec(name, package.submodule_search_locations)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as it looks itself up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


if f"{_NAME}.config" not in sys.modules:
    _stand_in.config = _alone(f"{_NAME}.config")
    if "_dynamo" not in vars(torch):  # an import takes its place
        torch._dynamo = _stand_in  # pyright: ignore[reportAttributeAccessIssue]
