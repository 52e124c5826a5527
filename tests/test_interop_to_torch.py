"""JAX functions in torch code, held against the same function written with torch's own operators."""

import threading

import jax
import numpy as np
import pytest
import torch
from torch.utils import checkpoint
from torch.utils.data import DataLoader, Dataset

import jaxish
import jaxish.numpy as jnp
from jaxish.interop import to_torch

# Each as jaxish's user writes it, and as torch's does.
FUNCTIONS = {
    "elementwise": (lambda x: jnp.sin(x) * x, lambda x: torch.sin(x) * x),
    "jitted": (jaxish.jit(lambda x: jnp.tanh(x) ** 2), lambda x: torch.tanh(x) ** 2),
    "products": (lambda x: jnp.exp(-(x @ x.T)), lambda x: torch.exp(-(x @ x.T))),
    "reductions": (lambda x: jaxish.nn.logsumexp(x, axis=0), lambda x: torch.logsumexp(x, 0)),
    "a loop": (
        lambda x: jaxish.lax.scan(lambda c, row: (jnp.sin(c + row), c), jnp.zeros_like(x[0]), x)[0],
        lambda x: torch.sin(torch.sin(x[0]) + x[1]),
    ),
    "a branch": (
        lambda x: jaxish.lax.cond(x.sum() > 0, lambda x: x * x, lambda x: -x, x),
        lambda x: x * x if x.sum() > 0 else -x,
    ),
    "a view": (lambda x: x.T, lambda x: x.T),
    "jax.grad inside": (jaxish.grad(lambda x: (x**3).sum()), lambda x: 3 * x**2),
}  # fmt: skip
X = torch.tensor([[0.5, -1.0, 2.0], [0.25, 1.5, -0.75]])


def close(found, wanted, **options):
    torch.testing.assert_close(found, wanted, **{"rtol": 1e-5, "atol": 1e-6, **options})


@pytest.fixture(params=["direct", "compiled"])
def tier(request):
    if request.param == "compiled":
        request.getfixturevalue("compiled")
        jaxish.clear_caches()


@pytest.fixture
def x64():
    with jaxish.enable_x64(True):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name, tier):
    ours, theirs = to_torch(FUNCTIONS[name][0]), FUNCTIONS[name][1]
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    close(ours(X), theirs(X))
    found, wanted = ours(x), theirs(y)
    weights = torch.linspace(1, 2, wanted.numel()).reshape(wanted.shape)
    (found * weights).sum().backward()
    (wanted * weights).sum().backward()
    close(x.grad, y.grad)
    assert found.requires_grad
    assert not found.is_leaf


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name, x64):
    x = X.double().requires_grad_()
    assert torch.autograd.gradcheck(to_torch(FUNCTIONS[name][0]), (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(to_torch(FUNCTIONS[name][0]), (x,))


def test_gradcheck_of_complex_numbers(x64):
    x = torch.complex(X, X.flip(0)).to(torch.complex128).requires_grad_()
    assert torch.autograd.gradcheck(to_torch(lambda x: jnp.exp(1j * x) * jnp.conj(x)), (x,))
    assert torch.autograd.gradgradcheck(to_torch(lambda x: jnp.exp(1j * x) * jnp.conj(x)), (x,))


TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum()),
    "vmap": lambda f: lambda x: torch.func.vmap(f)(torch.stack([x, 2 * x, -x])),
    "vmap of another axis": lambda f: lambda x: torch.func.vmap(f, -1, -1)(torch.stack([x, 2 * x], -1)),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (x.cos(),)),
    "vjp": lambda f: lambda x: torch.func.vjp(f, x)[1](f(x)),
    "jacrev": torch.func.jacrev,
    "jacfwd": torch.func.jacfwd,
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum()),
    "examples' gradients": lambda f: lambda x: torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.stack([x, -x])),
    "gradient of gradients": lambda f: torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sin().sum()),
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_func(name, transform):
    ours, theirs = FUNCTIONS[name]
    if name == "a branch" and "vmap" in transform + ("vmap" if transform == "examples' gradients" else ""):
        theirs = lambda x: torch.where(x.sum() > 0, x * x, -x)
    if name == "a branch" and transform in ("jacrev", "jacfwd", "hessian"):  # they map tangents, not values
        theirs = lambda x: x * x
    close(TRANSFORMS[transform](to_torch(ours))(X), TRANSFORMS[transform](theirs)(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["elementwise", "a loop", "products"])
def test_autograd_around_torch_func(name):
    def loss(f, x):
        mapped = torch.func.vmap(f)(torch.stack([x, 2 * x])).sum()
        slope = torch.func.grad(lambda x: f(x).sum())(x)
        return mapped + (slope * slope).sum()

    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    loss(to_torch(FUNCTIONS[name][0]), x).backward()
    loss(FUNCTIONS[name][1], y).backward()
    close(x.grad, y.grad, rtol=1e-4, atol=1e-4)


def test_pytrees_in_and_out():
    function = to_torch(lambda p, *rest, scale: {"a": (p["w"] @ rest[0], None), "b": [rest[1] * scale]})
    w, x = torch.eye(2, requires_grad=True), torch.ones(2)
    found = function({"w": w}, x, 3.0, scale=x)
    assert found["a"][1] is None
    close(found["b"][0], torch.full((2,), 3.0))
    found["a"][0].sum().backward()
    close(w.grad, torch.ones(2, 2))


def test_arguments_that_are_not_differentiated():
    function = to_torch(lambda x, i, mask: (jnp.where(mask, x[i], 0.0), i + 1))
    x = torch.arange(3.0, requires_grad=True)
    values, indices = function(x, torch.tensor([2, 0]), torch.tensor([True, False]))
    assert (indices.dtype, indices.requires_grad) == (torch.int32, False)  # as jnp.asarray has it
    values.sum().backward()
    close(x.grad, torch.tensor([0.0, 0.0, 1.0]))
    frozen = torch.ones(2)
    y = to_torch(lambda a, b: a * b)(torch.ones(2, requires_grad=True), frozen)
    y.sum().backward()
    assert frozen.grad is None


def test_static_arguments_of_a_jitted_function():
    function = to_torch(jaxish.jit(lambda x, n: x * n if isinstance(n, int) else None, static_argnums=1))
    for n in (2, 3, 2):
        close(function(torch.ones(2), n), torch.full((2,), float(n)))


def test_keys_are_arguments():
    key = jaxish.random.key(3)
    found = to_torch(lambda key, x: jaxish.random.normal(key, x.shape) * x)(key, torch.ones(4))
    np.testing.assert_allclose(found, jax.random.normal(jax.random.key(3), (4,)), rtol=1e-6)


def test_custom_rules_are_kept():
    @jaxish.custom_vjp
    def clipped(x):
        return x * x

    clipped.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.clip(g * 2 * x, -1, 1),))
    x = torch.tensor([0.1, 3.0, -4.0], requires_grad=True)
    compiled = torch.compile(to_torch(clipped), fullgraph=True, backend="aot_eager")
    for function in (to_torch(clipped), compiled):
        (slope,) = torch.autograd.grad(function(x).sum(), x)
        close(slope, torch.tensor([0.2, 1.0, -1.0]))


def test_what_was_captured_is_seen():
    array = jnp.ones(2)
    function = to_torch(lambda x: (x * array, array))
    _, captured = function(torch.ones(2))
    captured.add_(5)  # the caller's own
    np.testing.assert_array_equal(array, [1, 1])
    close(function(torch.ones(2))[0], torch.ones(2))


SHARING = {
    "an argument": lambda x: x,
    "a view of an argument": lambda x: x.reshape(-1)[1:],
    "parts of an argument": lambda x: tuple(x),
    "two results": lambda x: (x * 2, x * 2),
    "one result twice": lambda x: (lambda y: (y, y, y.T))(jnp.sin(x)),
    "through a loop": lambda x: jaxish.lax.fori_loop(0, 0, lambda _, c: c + 1, x),
    "through a branch": lambda x: jaxish.lax.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, x),
}


@pytest.mark.parametrize("case", SHARING)
@pytest.mark.parametrize("differentiated", [False, True])
def test_results_are_the_callers_own_memory(case, differentiated, tier):
    x = torch.ones(2, 3, requires_grad=differentiated)
    results = to_torch(SHARING[case])(x)
    results = results if isinstance(results, tuple) else (results,)
    kept = [r.detach().clone() for r in results]
    for index, result in enumerate(results):
        with torch.no_grad():
            result.add_(100)
        close(x.detach(), torch.ones(2, 3))
        for other, before in list(zip(results, kept, strict=True))[index + 1 :]:
            close(other.detach(), before)


def test_writing_in_place_between_forward_and_backward_is_noticed():
    x = torch.ones(3, requires_grad=True)
    y = to_torch(jnp.exp)(x * 1)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_modes():
    function = to_torch(lambda a, b: a @ b)
    a = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        assert not function(a, a).requires_grad
    with torch.inference_mode():
        assert to_torch(jnp.cosh)(a).is_inference()
    close(to_torch(jnp.cosh)(a), torch.cosh(a))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = function(a, a)
        assert found.dtype == torch.float32
    found.sum().backward()
    close(a.grad, torch.full((2, 2), 4.0))


def test_arrays_of_torch_functions_inside_jaxish():
    function = to_torch(jnp.sin)
    inner = lambda x: jaxish.from_torch(function(x.to_torch()))
    np.testing.assert_allclose(
        jaxish.jit(jaxish.grad(lambda x: inner(x).sum()))(jnp.ones(3)), np.cos(np.ones(3)), rtol=1e-6
    )


@pytest.mark.parametrize(
    "tensor",
    [torch.eye(2).to_sparse(), torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)],
    ids=["sparse", "nested"],
)  # fmt: skip
def test_what_is_no_dense_tensor_is_refused(tensor):
    with pytest.raises(TypeError, match="takes dense tensors"):
        to_torch(lambda x: x * 2)(tensor)


@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_no_elements_and_no_dimensions(shape):
    x = torch.ones(shape, requires_grad=True)
    to_torch(jnp.sin)(x).sum().backward()
    close(x.grad, torch.ones(shape).cos())


def test_gradients_have_the_dtypes_of_arguments():
    for dtype in (torch.float64, torch.bfloat16, torch.complex64):
        x = torch.ones(2, dtype=dtype, requires_grad=True)
        abs(to_torch(lambda x: x * 2)(x)).sum().backward()
        close(x.grad, torch.full((2,), 2, dtype=dtype))


def test_hooks_checkpoints_and_unused_arguments():
    x, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = to_torch(lambda a, b: a * 3)(x, unused)
    y.register_hook(lambda gradient: gradient * 10)
    y.sum().backward()
    close(x.grad, torch.full((2,), 30.0))
    close(unused.grad, torch.zeros(2))
    x.grad = None
    checkpoint.checkpoint(to_torch(jnp.sin), x, use_reentrant=False).sum().backward()
    close(x.grad, torch.ones(2).cos())


def test_references_are_refused():
    ref = jaxish.new_ref(jnp.zeros(2))
    with pytest.raises(NotImplementedError, match="reference"):
        to_torch(lambda x: x + ref[...])(torch.ones(2))


def test_threads():
    function = to_torch(FUNCTIONS["products"][0])
    wanted = {}
    inputs = [X * k for k in range(1, 9)]
    for k, x in enumerate(inputs):
        x = x.clone().requires_grad_()
        FUNCTIONS["products"][1](x).sum().backward()
        wanted[k] = x.grad
    found = {}
    together = threading.Barrier(len(inputs))

    def work(k):
        x = inputs[k].clone().requires_grad_()
        together.wait()
        function(x).sum().backward()
        found[k] = x.grad

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    close(found, wanted)


class Squares(Dataset):
    function = staticmethod(to_torch(lambda x: (x * x, jnp.cumsum(x))))

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.function(torch.arange(3.0) + index)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, which is here for other tests
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader(context):
    Squares()[0]  # traced here: the workers inherit it, or trace on their own
    batches = list(DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context=context))
    rows = torch.arange(3.0) + torch.arange(4.0)[:, None]
    close(torch.cat([b[0] for b in batches]), rows * rows)
    close(torch.cat([b[1] for b in batches]), rows.cumsum(1))


# ------------------------------------------------------------------------------------------------- torch.compile


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inside_torch_compile(name, backend):
    torch._dynamo.reset()
    ours, theirs = to_torch(FUNCTIONS[name][0]), FUNCTIONS[name][1]
    program = torch.compile(lambda x: ours(x + 1) * 2, fullgraph=True, backend=backend)
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    found, wanted = program(x), theirs(y + 1) * 2
    close(found, wanted)
    found.sum().backward()
    wanted.sum().backward()
    close(x.grad, y.grad)
    close(program(X), theirs(X + 1) * 2)  # without gradients


def test_gradients_that_autograd_maps(tier):
    """torch's older vmap has no level that could be asked for: compiled code was given its tensors, which have no memory."""
    ours, theirs = FUNCTIONS["elementwise"]
    x = X[0].clone()
    for _ in range(2):
        for strategy in ("reverse-mode", "forward-mode"):
            found = torch.autograd.functional.jacobian(to_torch(ours), x, vectorize=True, strategy=strategy)
            close(found, torch.autograd.functional.jacobian(theirs, x))
        hessian = torch.autograd.functional.hessian(lambda x: to_torch(ours)(x).sum(), x, vectorize=True)
        close(hessian, torch.autograd.functional.hessian(lambda x: theirs(x).sum(), x))
        x.requires_grad_()
        (mapped,) = torch.autograd.grad(to_torch(ours)(x), x, torch.eye(3), is_grads_batched=True)
        close(mapped, torch.autograd.functional.jacobian(theirs, x))
        x = x.detach()


def test_inside_torch_compile_with_inductor():
    torch._dynamo.reset()
    ours, theirs = (to_torch(lambda p, x: {"y": jnp.tanh(x @ p["w"])}), lambda p, x: {"y": torch.tanh(x @ p["w"])})
    inputs = [({"w": torch.eye(3, requires_grad=True)}, X) for _ in range(2)]
    program = torch.compile(lambda p, x: ours(p, x * 2)["y"].sum(), fullgraph=True)
    program(*inputs[0]).backward()
    theirs(inputs[1][0], X * 2)["y"].sum().backward()
    close(inputs[0][0]["w"].grad, inputs[1][0]["w"].grad)


def test_inside_torch_compile_with_sizes_that_change():
    torch._dynamo.reset()
    function = to_torch(jnp.cumsum)
    program = torch.compile(lambda x: function(x * 2), fullgraph=True, backend="aot_eager", dynamic=True)
    for size in (3, 5, 3):
        close(program(torch.ones(size)), torch.arange(1.0, size + 1) * 2)
