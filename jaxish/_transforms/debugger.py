"""What `jax.debug.breakpoint` stops in: a debugger for the variables of a program that is traced first and run later.

When the program runs, the frames of its functions are gone. So a breakpoint takes them down while it is traced, and
what is traced of their variables becomes operands of a host callback, whose values the debugger shows in their places.
"""

import cmd
import inspect
import pprint
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any, ClassVar

from .._core import errors, tree
from .._core.array import Array, from_kind, is_tracer, tensor_of
from .._core.user_frames import include_frame
from .callbacks import Effect, HostFunction, pure_callback
from .flat import differentiable

_one_at_a_time = threading.RLock()  # one that is entered again by a breakpoint in what is evaluated at its prompt


class _CannotFlatten:
    """Stands for a variable that is no pytree, although its class is one (a dict of keys without an order)."""

    def __repr__(self) -> str:
        return "<cant_flatten>"


@dataclass(frozen=True)
class Place:
    """Where a frame is, and its function's source; `offset` is the place of the line in it, None where there is none."""

    filename: str
    line: int
    source: list[str]
    offset: int | None

    @staticmethod
    def of(frame: FrameType) -> "Place":
        """Return where `frame` is now."""
        filename = inspect.getsourcefile(frame) or frame.f_code.co_filename
        try:
            lines, start = inspect.getsourcelines(frame)
        except OSError:
            return Place(filename, frame.f_lineno, [], None)
        source = "".join(lines).split("\n")
        offset = frame.f_lineno - max(start, 1)  # a module's source starts at line 0
        # What eval was given may be said to stand in a file where it does not.
        return Place(filename, frame.f_lineno, *((source, offset) if offset < len(source) else ([], None)))


class Frames:
    """The frames of a breakpoint, innermost first: as they are when it is traced, but for operands."""

    def __init__(self, frames: list[FrameType]) -> None:
        variables = [dict(frame.f_locals) for frame in frames]
        self._places = [Place.of(frame) for frame in frames]
        self._names = [list(v) for v in variables]
        self._leaves, self._spec = tree.flatten([[_flattenable(x) for x in v.values()] for v in variables])
        self._traced = [i for i, leaf in enumerate(self._leaves) if _can_be_operand(leaf)]

    def take_operands(self) -> list[Array]:
        """Return what is traced of the variables, which is not kept: tracers are not to outlive the trace."""
        operands = [self._leaves[i] for i in self._traced]
        for i in self._traced:
            self._leaves[i] = None
        return operands

    def __call__(self, values: tuple[Any, ...]) -> list[tuple[Place, dict[str, Any]]]:
        """Return places and variables, with the operands' values."""
        leaves = list(self._leaves)
        for i, value in zip(self._traced, values, strict=True):
            leaves[i] = value
        variables = self._spec.unflatten(leaves)
        return [(p, dict(zip(n, v, strict=True))) for p, n, v in zip(self._places, self._names, variables, strict=True)]


def _flattenable(value: Any) -> Any:
    try:
        tree.flatten(value)
    except Exception:
        return _CannotFlatten()
    return value


def _can_be_operand(leaf: Any) -> bool:
    """Tell whether `leaf` is traced by what is going on here; others, leaked ones among them, are shown as they are."""
    try:
        return is_tracer(leaf) and tensor_of(leaf) is not None
    except errors.UnexpectedTracerError:
        return False


class CommandLine(cmd.Cmd):
    """The debugger: it reads commands from `stdin`, and writes to `stdout`."""

    prompt = "(jdb) "
    intro: ClassVar[str] = "Entering jdb:"

    def __init__(
        self, frames: list[tuple[Place, dict[str, Any]]], stdin: IO[str] | None = None, stdout: IO[str] | None = None,
        completekey: str = "tab",
    ) -> None:  # fmt: skip
        super().__init__(completekey, stdin, stdout)
        self.use_rawinput = stdin is None
        self._frames, self._index = frames, 0

    def run(self) -> None:
        """Read commands until one goes on with the program."""
        while True:
            try:
                return self.cmdloop()
            except KeyboardInterrupt:  # ends a command, not the program
                self._say("--KeyboardInterrupt--")

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # whatever the user evaluates, `exit()` included, is not the program's
            self._say(f"*** {traceback.format_exception_only(error)[-1].strip()}")

    def _evaluated(self, expression: str) -> Any:
        return eval(expression, {}, dict(self._frames[self._index][1]))

    def default(self, line: str) -> None:
        """Evaluate what is no command."""
        self.do_p(line)

    def do_p(self, arg: str) -> None:
        """p expression: print the value of an expression."""
        with self._failures_told():
            self._say(repr(self._evaluated(arg)))

    def do_pp(self, arg: str) -> None:
        """pp expression: print the value of an expression over several lines, where it is long."""
        with self._failures_told():
            self._say(pprint.pformat(self._evaluated(arg)))

    def _list(self, around: int) -> None:
        place = self._frames[self._index][0]
        self._say(f"> {place.filename}({place.line})")
        here = place.offset or 0
        first = max(here - 1 - around, 0)
        for i, line in enumerate(place.source[first : here + around + 1], first):
            self._say(f"{'->' if i == here else '  '}  {line}")

    def do_list(self, arg: str) -> None:
        """l(ist): show the source around the line where the frame is."""
        self._list(5)

    def _move(self, step: int, end: str) -> None:
        if 0 <= self._index + step < len(self._frames):
            self._index += step
        else:
            self._say(f"At {end} frame.")
        self._list(2)

    def do_up(self, arg: str) -> None:
        """u(p): go to the frame that called this one."""
        self._move(1, "topmost")

    def do_down(self, arg: str) -> None:
        """d(own): go to the frame that this one called."""
        self._move(-1, "bottommost")

    def do_where(self, arg: str) -> None:
        """w(here): show the lines of all frames, the innermost last. `bt` does the same."""
        self._say("Traceback:")
        for place, _ in reversed(self._frames):
            self._say(f'  File "{place.filename}", line {place.line}')
            self._say(f"    {'<no source>' if place.offset is None else place.source[place.offset].strip()}")

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue)): go on with the program."""
        return True

    def do_quit(self, arg: str) -> None:
        """q(uit) or exit: end the program."""
        sys.exit(0)

    do_l, do_u, do_d = do_list, do_up, do_down
    do_w = do_bt = do_where
    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit


def breakpoint(
    caller: FrameType, *, backend: str | None, filter_frames: bool, num_frames: int | None, ordered: bool, token: Any,
    options: dict[str, Any],
) -> Any:  # fmt: skip
    """Stop in `caller` when the program gets there; `jax.debug.breakpoint` says how."""
    if backend in ("web", "colab"):
        raise NotImplementedError(
            f"debug.breakpoint(backend={backend!r}) is not supported; leave backend out, for the debugger at the command line."
        )
    if token is not None and ordered:
        raise ValueError("`ordered` and `token` are mutually exclusive arguments.")
    found = (f for f in _outwards(caller) if not filter_frames or include_frame(f))
    frames = Frames(list(found)[:num_frames])
    operands = frames.take_operands()

    def stop(*values: Any) -> None:
        with _one_at_a_time:
            CommandLine(frames(values), **options).run()

    if token is not None:
        return _stop_for(token, stop, operands)
    function, arrays = HostFunction.of(stop, tuple(operands), {}, static=True)
    Effect("breakpoint", function, ordered=ordered)(*map(tensor_of, arrays))
    return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _stop_for(token: Any, stop: Callable[..., None], operands: list[Array]) -> Any:
    """Return `token`, a constant to every derivative; where it is computed, `stop` is called."""

    def breakpoint(token: Any, *values: Any) -> Any:
        stop(*values)
        return token

    def constant(leaf: Any) -> Any:
        is_variable = isinstance(leaf, Array) and differentiable(leaf)
        return from_kind(tensor_of(leaf).detach(), leaf.kind) if is_variable else leaf

    leaves, spec = tree.flatten(token)
    token = spec.unflatten(map(constant, leaves))
    return pure_callback(breakpoint, token, token, *map(constant, operands))
