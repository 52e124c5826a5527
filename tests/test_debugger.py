"""jax.debug.breakpoint: the same commands give the same session under JAX and under jaxish."""

import inspect
import io
import sys

import jax
import numpy as np
import pytest

import jaxish

X = np.arange(1, 4, dtype=np.float32)


def session(j, program, *commands, **options):
    """Return what the debugger writes for a program that stops by the function that it is given the options of."""
    options = {"stdin": io.StringIO("".join(f"{c}\n" for c in commands)), "stdout": io.StringIO(), **options}
    program(j, options)
    j.effects_barrier()
    return options["stdout"].getvalue()


def same_session(program, *commands, **options):
    wanted = session(jax, program, *commands, **options)
    assert session(jaxish, program, *commands, **options) == wanted
    assert wanted.startswith("Entering jdb:")
    return wanted


def stopping(j, options):
    def f(x, n=2):
        y = x * 2
        both = {"sum": [x + y, None], "name": "text", "y": (y, n)}
        j.debug.breakpoint(ordered=True, **options)
        return y.sum() + both["sum"][0].sum()

    return f


def with_custom_rule(j, options):
    f = j.custom_jvp(lambda x: x.sum())

    @f.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        y = x * 3
        j.debug.breakpoint(**options)
        return y.sum(), dx.sum()

    x = j.numpy.asarray(X)
    j.jvp(f, (x,), (x,))
    j.jvp(j.jit(f), (x,), (x,))


def in_scan(j, options):
    scale = j.numpy.float32(2)

    def step(y, x):
        z = y * x
        j.debug.breakpoint(ordered=True, **options)
        return z, z

    j.jit(lambda xs: j.lax.scan(step, scale, xs))(X[:2])


def in_while(j, options):
    def step(y):
        x = y * 2
        j.debug.breakpoint(ordered=True, **options)
        return x

    j.jit(lambda y: j.lax.while_loop(lambda y: y < 4, step, y))(1.0)


def in_branch(j, options):
    def taken(x):
        y = x + 1
        j.debug.breakpoint(**options)
        return y

    j.jit(lambda x: j.lax.cond(x.sum() > 0, taken, lambda x: x, x))(X)


def in_closure(j, options):
    @j.jit
    def outer(x):
        y = x * 3

        @j.jit
        def inner(z):
            j.debug.breakpoint(**options)
            return y + z

        return inner(x)

    outer(X)


VALUES = {
    "call": lambda j, o: stopping(j, o)(j.numpy.asarray(X)),
    "jit": lambda j, o: j.jit(stopping(j, o))(X),
    "jit of a number": lambda j, o: j.jit(stopping(j, o))(2.0),
    "vmap": lambda j, o: j.vmap(stopping(j, o))(X),
    "jit of vmap": lambda j, o: j.jit(j.vmap(stopping(j, o)))(X),
    "vmap of jit, a part": lambda j, o: j.vmap(j.jit(stopping(j, o)), (0, None))(X, 3),
    "grad": lambda j, o: j.grad(stopping(j, o))(X),
    "jit of grad": lambda j, o: j.jit(j.grad(stopping(j, o)))(X),
    "vmap of grad": lambda j, o: j.vmap(j.grad(stopping(j, o)))(X),
    "jvp": lambda j, o: j.jvp(stopping(j, o), (X,), (X,)),
    "custom rule": with_custom_rule,
    "scan": in_scan,
    "while": in_while,
    "cond": in_branch,
    "closure": in_closure,
}


@pytest.mark.parametrize("name", VALUES)
def test_variables_have_the_values_of_the_run(name):
    commands = ["p x", "p y", "p x + y", "both", "pp both, n", "z", "u", "c"]
    same_session(VALUES[name], *commands * 3)


def test_source_and_frames_can_be_looked_at():
    def program(j, options):
        x, text = X, "outer"
        j.jit(stopping(j, options))(x * 2)
        return text

    commands = ["d", "l", "p x", "u", "p text", "p x", "u", "list", "p x", "down", "w", "bt", "where", "", "cont"]
    shown = same_session(program, *commands, num_frames=2)
    assert "At topmost frame." in shown and "At bottommost frame." in shown


def test_frames_of_the_library_are_shown_if_asked_for():
    def program(j, options):
        j.jit(stopping(j, options))(X)

    assert jaxish.__name__ + "/_transforms" in session(jaxish, program, "bt", "c", filter_frames=False)
    assert jaxish.__name__ + "/_" not in session(jaxish, program, "bt", "c")


@pytest.mark.parametrize("command", ["missing", "p missing", "pp 1 / 0", "p", "x = 3", "import os", "raise", "p [][0]"])
def test_failures_at_the_prompt_are_told(command):
    same_session(lambda j, o: stopping(j, o)(X), command, "p n", "c")


def test_help_names_the_same_commands():
    same_session(lambda j, o: stopping(j, o)(X), "help", "c")


def test_what_cannot_be_carried_is_shown_as_jax_shows_it():
    class Own:
        def __repr__(self):
            return "an object"

    def program(j, options):
        def f(x):
            weird = {len: 2.0, abs: x}
            own, missing, array, ids = Own(), None, np.arange(3), [1, "two", None, (3,)]
            j.debug.breakpoint(**options)
            return weird, own, missing, array, ids

        j.jit(lambda x: f(x) and x)(X)

    same_session(program, "weird", "own", "missing", "array", "ids", "p [weird]", "c")


def test_local_names_come_before_others_and_globals_are_not_known():
    def program(j, options):
        X = "local"
        j.debug.breakpoint(**options)
        return X

    same_session(program, "p X", "p io", "p len([1])", "c")


def test_breakpoints_in_a_program_stop_one_after_the_other():
    def program(j, options):
        def f(x):
            y = stopping(j, options)(x)
            j.debug.breakpoint(ordered=True, **options)
            return y

        g = j.jit(f)
        g(X)
        g(X * 2)

    same_session(program, *["p x", "p y", "c"] * 4)


def test_a_function_jitted_before_shows_the_caller_of_this_call():
    def program(j, options):
        inner = j.jit(stopping(j, options))
        j.jit(lambda a: inner(a * 2))(X)
        j.jit(lambda b: inner(b * 3))(X)

    # JAX raises UnexpectedTracerError at the second call: the frames of the first are in its cache.
    shown = session(jaxish, program, "u", "p a", "c", "u", "p b", "c", num_frames=2)
    assert shown.count("Array([1., 2., 3.], dtype=float32)") == 2


def test_a_breakpoint_keeps_no_tracer():
    def program(j, options):
        with j.checking_leaks():
            j.jit(lambda x: stopping(j, options)(x))(X)

    same_session(program, "p x", "c")


def test_leaked_tracers_are_no_obstacle():
    def program(j, options):
        leaked = []
        j.jit(lambda x: (leaked.append(x), x)[1])(X)
        j.debug.breakpoint(**options)

    assert session(jaxish, program, "p len(leaked)", "c") == "Entering jdb:\n(jdb) 1\n(jdb) "


def test_a_token_is_handed_on():
    def program(j, options):
        def f(x):
            y = x * 2
            return j.debug.breakpoint(token={"a": y}, **options)["a"].sum() + x.sum()

        return [np.asarray(g(X)).tolist() for g in (f, j.jit(f), j.grad(f))]

    results = {}

    def kept(j, options):
        results[j] = program(j, options)

    same_session(kept, *["p x", "p y", "c"] * 3)
    assert results[jax] == results[jaxish]


def test_a_token_that_is_not_used_does_not_stop():
    def program(j, options):
        j.jit(lambda x: (j.debug.breakpoint(token=x, **options), x)[1])(X)

    assert session(jaxish, program) == session(jax, program) == ""


def test_a_token_goes_without_an_order():
    for j in (jax, jaxish):
        with pytest.raises(ValueError, match="are mutually exclusive"):
            j.debug.breakpoint(token=j.numpy.ones(2), ordered=True)


@pytest.mark.parametrize("commands", [["q"], ["quit"], ["exit"], []])
def test_quitting_ends_the_program(commands):
    for j in (jax, jaxish):
        with pytest.raises(SystemExit):
            session(j, lambda j, o: stopping(j, o)(X), *commands)
    with pytest.raises(SystemExit):
        session(jaxish, lambda j, o: j.jit(stopping(j, o))(X), *commands)


def test_the_terminal_is_the_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("p x\nc\n"))
    jaxish.jit(lambda x: (jaxish.debug.breakpoint(), x)[1])(X)
    assert "Array([1., 2., 3.], dtype=float32)" in capsys.readouterr().out


def test_options_are_jaxs_and_other_debuggers_are_refused():
    ours, theirs = (list(inspect.signature(j.debug.breakpoint).parameters) for j in (jaxish, jax))
    assert ours == theirs
    for backend in ("web", "colab"):
        with pytest.raises(NotImplementedError, match="leave backend out"):
            jaxish.debug.breakpoint(backend=backend)
    for j in (jax, jaxish):
        with pytest.raises(TypeError, match="unexpected keyword argument 'color'"):
            j.debug.breakpoint(color=True)
