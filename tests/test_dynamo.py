"""torch._dynamo, sympy and the like are imported when something needs them, and then they are what others have."""

import subprocess
import sys

import pytest

TRACES = """
import sys
import jaxish as jax, jaxish.numpy as jnp

def loss(w, x):
    return (jnp.tanh(x @ w) ** 2).sum() + jnp.any(x > 2) + jax.lax.scan(lambda c, x: (c + x, c), 0.0, x[:, 0])[0]

w, x = jnp.ones(3), jnp.ones((4, 3))
jax.grad(loss)(w, x), jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(w, x[:, None]), jax.hessian(loss)(w, x)
jax.make_jaxpr(lambda w: jax.jvp(lambda w: loss(w, x), (w,), (w,)))(w)
assert not {"torch._dynamo", "torch._inductor", "sympy"} & set(sys.modules)
"""

DATA = """
import sys
import numpy as np
import jaxish as jax, jaxish.numpy as jnp

x = np.arange(12, dtype=np.float32).reshape(3, 4)
jax.jit(lambda x: x.T + 1)(x), jax.jit(jax.grad(lambda x: x[np.array([0, 2])].sum()))(x)
jax.jit(jax.grad(lambda x: jnp.prod(x) + jnp.std(x) + jnp.linalg.norm(x) + jnp.repeat(x, 2, 0).sum()))(x)
jax.jit(lambda x: (jnp.roll(x, 1), abs(x + 1j).sum(), jnp.arange(3) / 2))(x)
jax.jit(jax.hessian(lambda x: (x**3).sum() * jnp.sin(x).prod()))(x[0]), jax.jit(jax.vmap(jax.jacfwd(jnp.tanh)))(x)
assert not {"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"} & set(sys.modules)
"""

EAGER = """
import sys
import jaxish as jax, jaxish.numpy as jnp

w = jnp.ones(3)
jax.jvp(lambda w: jnp.tanh(w) * 2, (w,), (w,)), jax.jacfwd(lambda w: jnp.tanh(w) * jnp.var(w))(w)
jax.linearize(jnp.tanh, w)[1](w)
assert not {"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"} & set(sys.modules)
"""

SECOND = """
import sys
import jaxish as jax, jaxish.numpy as jnp

x = jnp.eye(4) + 0.1
along = lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x)
along(jax.grad(lambda x: jnp.log1p(jnp.exp(-(x @ x[0]))).sum())), along(jnp.linalg.inv), along(lambda x: x.mean(1))
along(lambda x: jax.nn.logmeanexp(x, 1)), along(jax.grad(lambda x: abs(jnp.exp(1j * x) * x).sum()))
along(jax.vmap(lambda row: jax.lax.pswapaxes(row, "i", 0) * row, axis_name="i"))
assert not {"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"} & set(sys.modules)
"""

TRANSFORMS = """
import sys
import jaxish as jax, jaxish.numpy as jnp

x = jnp.ones((4, 3))
jax.jit(lambda x: (jnp.fft.fft(x), jnp.fft.rfft2(x), jnp.fft.irfft(x), jnp.linalg.qr(x, mode="raw")))(x)
jax.jit(lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 2), (1, 1), "SAME"))(x)
jax.jit(lambda x: (jnp.packbits(x > 0), jnp.convolve(x[0], x[1])))(x)
assert not {"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"} & set(sys.modules)
"""

COMMON = """
import sys
import jaxish as jax, jaxish.numpy as jnp

w, x = jnp.ones(3), jnp.ones((4, 3))
jax.jit(jax.vmap(jax.grad(lambda w, x: (jnp.tanh(x @ w) ** 2).sum()), (None, 0)))(w, x[:, None])
jax.jit(jax.grad(lambda x: jax.nn.glu(jax.nn.relu(x) ** 3 + jnp.triu(jnp.outer(x[0], x[1]))).sum()))(jnp.ones((4, 4)))
jax.jit(lambda x, i: (x[i], jnp.argmax(x), x.at[i].add(1.0), jnp.where(x > 0, x, 0.0), jnp.kron(x, x)))(x, 1)
jax.jit(lambda x: jax.lax.cond(x.sum() > 2, jnp.sin, jnp.cos, x))(x)
jax.random.gamma(jax.random.key(0), 2.0, (3,)), jax.random.normal(jax.random.key(0), (50_000,)), x[jnp.arange(2), 0]
assert not {"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"} & set(sys.modules)
"""

USES = {
    "attribute": "import torch; f = torch._dynamo.explain",
    "import": "import torch._dynamo; f = torch._dynamo.explain",
    "from it": "from torch._dynamo import explain as f",
    "submodule": "from torch._dynamo.source import LocalSource; import torch; f = torch._dynamo.explain",
    "compile": """
import torch
f = torch.compile(lambda x: x.sin() + 1, backend="eager", fullgraph=True)
torch.testing.assert_close(f(torch.ones(2)), torch.ones(2).sin() + 1)
""",
}
CHECKS = """
import sys, torch, torch._dynamo.config
module = sys.modules["torch._dynamo"]
assert torch._dynamo is module and module.__file__ and module.config is torch._dynamo.config
torch._dynamo.reset()
"""
IN_A_TRACE = {
    "sympy": """
import sympy
from sympy.core.expr import Expr
class Atom(sympy.Basic): pass
optional = sympy.Basic | None
assert issubclass(Atom, sys.modules["sympy"].Basic) and isinstance(sympy.Symbol("x"), (int, sympy.Basic, Expr))
assert Expr is sys.modules["sympy"].Expr and sys.modules["sympy.core.expr"].Expr is Expr
""",
    "sympy's submodule": """
import sympy.core.numbers
import sympy
assert sympy.core.numbers.Integer is sympy.Integer
""",
    "torch's functions of symbols": """
from torch.utils._sympy.functions import Max
import sympy
assert Max(sympy.Integer(2), 3) == 3
""",
    "a submodule of Dynamo": """
from torch._dynamo.source import AttrSource
import torch._dynamo.variables.builder
assert torch._dynamo.variables.builder.AttrSource is AttrSource
""",
}
EXPORTS = """
import torch
exported = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim("n")},))
assert exported.module()(torch.ones(7, 3)).shape == (7, 2)
"""
BESIDE = """
import threading
import jaxish
from jaxish._core import dynamo

thread = threading.Thread(target=dynamo.import_between_traces)

def g(x):
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    from torch._dynamo.source import ConstantSource
    return jaxish.jit(lambda x: x * 2)(x)

jaxish.jit(g)(jaxish.numpy.ones(3))
thread.join()
"""


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize(
    "program",
    [TRACES, DATA, EAGER, SECOND, COMMON, TRANSFORMS],
    ids=["traces", "data", "forward mode outside of jit", "second derivatives", "common operators", "transforms"],
)
def test_tracing_does_not_import_it(program):
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_it_is_imported_whole(use, when):
    traces = "import jaxish\njaxish.jit(lambda x: x * 2)(jaxish.numpy.ones(3))\n"
    within = f"import jaxish\ndef g(x):\n    exec({USES[use]!r}, {{}})\n    return x * 2\njaxish.jit(g)(jaxish.numpy.ones(3))\n"
    program = {"before": USES[use] + "\n" + traces, "within": within, "after": traces + USES[use]}[when]
    if (use, when) == ("compile", "within"):
        pytest.skip("compiled code within a trace")
    done = run(program + CHECKS)
    assert done.returncode == 0, done.stderr


def test_a_thread_imports_it_while_nothing_is_traced():
    done = run(BESIDE + CHECKS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", IN_A_TRACE.values(), ids=IN_A_TRACE.keys())
def test_what_is_imported_within_a_trace_is_the_only_one(program):
    done = run(
        "import sys, jaxish\n"
        f"def g(x):\n    assert 'sympy.core' not in sys.modules\n    exec({program!r}, {{'sys': sys}})\n    return x * 2\n"
        f"jaxish.jit(g)(jaxish.numpy.ones(3))\n{EXPORTS}"
    )
    assert done.returncode == 0, done.stderr
