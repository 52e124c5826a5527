"""Functions and modules of torch in JAX programs, held against torch's own autograd and torch.func."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import jaxish as jax
import jaxish.numpy as jnp
from jaxish.interop import from_torch_function, from_torch_module


def close(found, wanted, rtol=1e-4, atol=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted.detach()), rtol, atol)


def of_torch(x):
    return jnp.array(x)


def key():
    return jax.random.key(0)


@pytest.fixture
def compiled_anew(compiled):
    jax.clear_caches()


# ------------------------------------------------------------------------------------------------------- functions


def written(x, write):
    y = x.clone()
    write(y)
    return y


FUNCTIONS = {
    "elementwise": lambda x: torch.sin(x) * x,
    "products": lambda x: torch.softmax(x @ x.T, -1),
    "an element written": lambda x: written(x, lambda y: y[0].mul_(x[1])),
    "a range written": lambda x: written(x, lambda y: y[:, 1:].mul_(x[:, :-1].clone())),
    "a sum in place": lambda x: written(x, lambda y: y.add_(1).mul_(x)),
    "rows written by index": lambda x: written(x, lambda y: y.__setitem__(torch.tensor([1, 0]), x * x)),
    "a mask": lambda x: x.masked_fill(x > 0.2, 1.0).sigmoid_(),
    "filled": lambda x: written(x, lambda y: y[0].fill_(2.0)) * x,
    "zeros filled by loops": lambda x: written(torch.zeros(2, 3), lambda y: [y[:, i].copy_(x[:, i] * i) for i in range(3)]),
    "a diagonal": lambda x: written(torch.zeros(3, 3), lambda y: y.diagonal().copy_(x[0])),
    "a view of a copy": lambda x: written(x * 1, lambda y: y.view(-1).mul_(2)),
    "an argument written": lambda x: x.mul_(3).sum() + x,
    "indices": lambda x: x.gather(1, torch.argsort(x.detach(), 1)),
    "torch.func inside": torch.func.vmap(torch.func.grad(lambda row: (row**3).sum())),
    "several results": lambda x: {"a": x * 2, "b": (x.sum(), None)},
}  # fmt: skip
X = torch.tensor([[0.5, -1.0, 2.0], [0.25, 1.5, -0.75]])
T = torch.tensor([[1.0, 0.5, -2.0], [0.3, 0.1, 1.0]])


def flat_sum(leaves):
    """Return one number that depends on all results, differently."""
    return sum(((i + 1) * leaf * leaf).sum() for i, leaf in enumerate(leaves))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name):
    theirs = lambda x: tree_leaves(FUNCTIONS[name](x.clone()))
    theirs_without_none = lambda x: [leaf for leaf in theirs(x) if leaf is not None]
    g = from_torch_function(FUNCTIONS[name])
    ours = lambda x: jax.tree.leaves(g(x))
    x, array = X.clone().requires_grad_(), of_torch(X)
    wanted = theirs_without_none(x)
    for function in (ours, jax.jit(ours)):
        for a, b in zip(function(array), wanted, strict=True):
            close(a, b)
    np.testing.assert_array_equal(array, X)
    torch.as_tensor(flat_sum(wanted)).backward()
    close(jax.grad(lambda x: flat_sum(ours(x)))(array), x.grad)
    close(jax.jit(jax.grad(lambda x: flat_sum(ours(x))))(array), x.grad)
    slopes = torch.func.jvp(lambda x: flat_sum(theirs_without_none(x)), (X,), (T,))[1]
    close(jax.jvp(lambda x: flat_sum(ours(x)), (array,), (of_torch(T),))[1], slopes)
    batch = torch.stack([X, X.flip(0), -X])
    mapped = [torch.stack(rows) for rows in zip(*map(theirs_without_none, batch), strict=True)]
    for a, b in zip(jax.vmap(ours)(of_torch(batch)), mapped, strict=True):
        close(a, b)
    curve = torch.func.grad(lambda x: torch.func.grad(lambda x: flat_sum(theirs_without_none(x)))(x).sin().sum())(X)
    close(jax.grad(lambda x: jnp.sin(jax.grad(lambda x: flat_sum(ours(x)))(x)).sum())(array), curve, atol=1e-4)


def test_in_a_scan():
    step = from_torch_function(lambda c, x: (torch.tanh(c + x), c * x))

    def loss(c):
        last, rows = jax.lax.scan(step, c, of_torch(X))
        return (last * rows).sum()

    c = torch.zeros(3, requires_grad=True)
    rows, carry = [], c
    for x in X:
        rows.append(carry * x)
        carry = torch.tanh(carry + x)
    (carry * torch.stack(rows)).sum().backward()
    close(jax.grad(loss)(jnp.zeros(3)), c.grad)


def test_what_is_no_array_is_as_in_torch():
    function = from_torch_function(torch.sum)
    close(function(of_torch(X), dim=1, keepdim=True), X.sum(1, keepdim=True))
    close(from_torch_function(torch.nn.functional.pad)(of_torch(X), (1, 1), value=2.0), F.pad(X, (1, 1), value=2.0))
    types = from_torch_function(lambda x, n: x + (n if isinstance(n, bool) else 10 * n))
    assert [float(types(jnp.zeros(()), n)) for n in (1, True, 1.0)] == [10, 1, 10]


def test_integers_are_torchs():
    loss = from_torch_function(F.cross_entropy)
    logits, labels = X.clone().requires_grad_(), torch.tensor([2, 0])
    F.cross_entropy(logits, labels).backward()
    close(jax.grad(loss)(of_torch(X), jnp.array([2, 0])), logits.grad)
    assert from_torch_function(lambda x: x.argmax(1))(of_torch(X)).dtype == jnp.int32
    with jax.enable_x64(True):
        assert from_torch_function(lambda x: x + 1)(jnp.arange(3, dtype="int32")).dtype == jnp.int32


def test_what_it_closes_over():
    weight = torch.ones(3, requires_grad=True)
    function = from_torch_function(lambda x: x * weight)
    assert not function(jnp.ones(3)).to_torch().requires_grad
    with torch.no_grad():
        weight.mul_(2)
    np.testing.assert_array_equal(function(jnp.ones(3)), [2, 2, 2])
    counter = torch.zeros(3)
    with pytest.raises(TypeError, match="closes over"):
        from_torch_function(lambda x: x + counter.add_(1))(jnp.ones(3))
    for write in (counter.add_, counter.copy_, lambda x: torch.add(x, 1, out=counter)):
        with pytest.raises(TypeError, match="closes over"):
            from_torch_function(write)(jnp.ones(3))
    assert counter.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * x.sum().item(),
        lambda x: x[x > 0],
        lambda x: torch.nonzero(x),
        lambda x: x[: int(x[0, 0])],
    ],
)
def test_control_flow_that_depends_on_values(function):
    for of in (lambda f: f, jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())):
        with pytest.raises(jax.errors.ConcretizationTypeError):
            of(from_torch_function(function))(jnp.ones((2, 3)) if of is not jax.vmap else jnp.ones((1, 2, 3)))


@pytest.mark.parametrize("read", [torch.Tensor.numpy, torch.Tensor.tolist, np.asarray, np.from_dlpack])
def test_values_leave_for_numpy_only_where_there_are_some(read):
    with pytest.raises(jax.errors.TracerArrayConversionError):
        from_torch_function(lambda x: x * torch.tensor(read(x)))(jnp.ones(3))
    closed_over = torch.arange(3.0)
    function = from_torch_function(lambda x: x * torch.tensor(read(closed_over)))
    np.testing.assert_array_equal(function(jnp.ones(3)), [0, 1, 2])


def test_autograd_functions_are_refused():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 100

    with pytest.raises(NotImplementedError, match="custom_vjp"):
        from_torch_function(Doubled.apply)(jnp.ones(3))


def test_what_torch_was_told_is_as_before():
    state = lambda: (
        torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled, torch.backends.mha.get_fastpath_enabled(),
        torch.compiler.is_compiling(), torch.backends.cuda.flash_sdp_enabled(),
    )  # fmt: skip
    before = state()
    from_torch_function(torch.sin)(jnp.ones(3))
    with pytest.raises(ZeroDivisionError):
        from_torch_function(lambda x: x + 1 // 0)(jnp.ones(3))
    assert state() == before


# --------------------------------------------------------------------------------------------------- random numbers


def test_draws_take_a_key():
    draw = from_torch_function(
        lambda x: x + torch.rand(3) + torch.randn_like(x) + torch.empty(3).uniform_(-1, 1).exponential_()
    )
    first, again, other = (draw(jnp.zeros(3), rng=k) for k in (key(), key(), jax.random.key(1)))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(TypeError, match="rng="):
        draw(jnp.zeros(3))
    with pytest.raises(NotImplementedError, match="randperm"):
        from_torch_function(lambda x: x[torch.randperm(3)])(jnp.zeros(3), rng=key())


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda x: torch.rand_like(x), 0.5, 12**-0.5),
        (lambda x: torch.randn(x.shape), 0, 1),
        (lambda x: torch.empty_like(x).normal_(2, 3), 2, 3),
        (lambda x: torch.empty_like(x).uniform_(-1, 3), 1, 4 * 12**-0.5),
        (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5),
        (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), 0.3, 0.21**0.5),
        (lambda x: F.dropout(torch.ones_like(x), 0.2), 1, 0.5),
    ],
)
def test_draws_are_distributed_as_torchs(draw, mean, deviation):
    count = 40_000
    found = np.asarray(from_torch_function(draw)(jnp.zeros(count), rng=key()))
    assert abs(found.mean() - mean) < 5 * deviation / count**0.5
    assert abs(found.std() - deviation) < 0.05 * deviation


def test_dropout_goes_back_through_what_it_kept():
    function = from_torch_function(lambda x: F.dropout(x, 0.5) * 3)
    x = jnp.arange(1.0, 65)
    kept = np.asarray(function(x, rng=key())) != 0
    assert 0 < kept.sum() < 64
    np.testing.assert_allclose(jax.grad(lambda x: function(x, rng=key()).sum())(x), 6.0 * kept)
    rows = jax.vmap(lambda k: function(x, rng=k))(jax.random.split(key(), 4))
    assert len({row.tobytes() for row in np.asarray(rows)}) == 4
    single = jax.vmap(lambda k: function(x, rng=k))(jax.random.split(key(), 4)[1:2])
    np.testing.assert_array_equal(single[0], rows[1])


# ---------------------------------------------------------------------------------------------------------- modules


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.down = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.down(x)
        return F.relu_(y)


class ResNet(nn.Module):
    """ResNet-18's parts, a block of two and few channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)
        )
        self.layers = nn.Sequential(Block(4, 4, 1), Block(4, 8, 2), Block(8, 8, 2))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 4, batch_first=True)

    def forward(self, tokens):
        y, (h, c) = self.lstm(self.embedding(tokens))
        return self.gru(y)[0].sum(1) + h.sum() + c.mean()


def encoder(dropout=0.0):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, batch_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


torch.manual_seed(0)
MODULES = {
    "resnet": (ResNet(), torch.randn(4, 3, 32, 32)),
    "transformer": (encoder(), torch.randn(3, 5, 8)),
    "lstm": (Recurrent(), torch.randint(0, 11, (3, 4))),
    "tied weights": (Tied(), torch.randn(3, 4)),
    "norms": (
        nn.Sequential(nn.Conv1d(4, 6, 3), nn.GroupNorm(2, 6), nn.InstanceNorm1d(6, affine=True), nn.BatchNorm1d(6, momentum=0.3), nn.GELU()),
        torch.randn(3, 4, 9),
    ),
    "statistics of instances": (nn.InstanceNorm2d(4, affine=True, track_running_stats=True, momentum=0.3), torch.randn(3, 4, 3, 2)),
    **{
        f"bags, {mode}": (nn.EmbeddingBag(11, 4, mode=mode, padding_idx=2), torch.randint(0, 4, (5, 3)))
        for mode in ("sum", "mean", "max")
    },
}  # fmt: skip


def weights_like(y):
    return torch.linspace(-1, 2, y.numel()).reshape(y.shape)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, train):
    module, x = MODULES[name]
    theirs = copy.deepcopy(module).train(train)
    apply, params, buffers = from_torch_module(module)
    assert params.keys() == dict(module.named_parameters()).keys()
    assert buffers.keys() == dict(module.named_buffers()).keys()
    before = {n: b.clone() for n, b in module.named_buffers()}

    def loss(params):
        y, new = apply(params, buffers, of_torch(x), train=train)
        return (y * of_torch(weights_like(y.to_torch()))).sum(), (y, new)

    slopes, (y, new) = jax.grad(loss, has_aux=True)(params)
    wanted = theirs(x)
    (wanted * weights_like(wanted)).sum().backward()
    close(y, wanted)
    for parameter, tensor in theirs.named_parameters():
        close(slopes[parameter], tensor.grad, rtol=1e-3, atol=2e-4)
    for buffer, tensor in theirs.named_buffers():
        close(new[buffer], tensor)
    for buffer, tensor in module.named_buffers():  # and the module is as it was
        assert torch.equal(tensor, before[buffer])


@pytest.mark.parametrize("name", ["resnet", "transformer", "lstm"])
def test_transformations_of_modules(name):
    module, x = MODULES[name]
    theirs = copy.deepcopy(module).eval()
    apply, params, buffers = from_torch_module(module)
    state = {n: t.detach() for n, t in theirs.named_parameters()}

    def ours(params, x):
        return (apply(params, buffers, x[None], train=False)[0] ** 2).sum()

    def wanted(state, x):
        return (torch.func.functional_call(theirs, state, (x[None],)) ** 2).sum()

    examples = [torch.func.grad(wanted)(state, row) for row in x]
    found = jax.vmap(jax.grad(ours), (None, 0))(params, of_torch(x))
    for n in state:
        close(found[n], torch.stack([e[n] for e in examples]), rtol=1e-3, atol=1e-4)
    slope = sum((examples[0][n] * state[n]).sum() for n in state)
    row = of_torch(x)[0]
    close(jax.jvp(lambda p: ours(p, row), (params,), (params,))[1], slope, rtol=1e-3)
    pushed = (
        jax.jvp(jax.grad(ours), (params, row), (params, jnp.zeros_like(row)))[1] if row.dtype == jnp.float32 else None
    )
    if pushed is not None:
        step = 1e-2
        moved = [torch.func.grad(wanted)({n: t * (1 + s) for n, t in state.items()}, x[0]) for s in (step, -step)]
        for n in state:
            close(pushed[n], (moved[0][n] - moved[1][n]) / (2 * step), rtol=0.1, atol=0.05)


def test_compiled_training_with_buffers_in_the_carry(compiled_anew):
    module, x = (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1)),
        torch.randn(4, 3, 8, 8),
    )
    theirs = copy.deepcopy(module)
    apply, params, buffers = from_torch_module(module)

    @jax.jit
    def step(params, buffers, x):
        def loss(params):
            y, new = apply(params, buffers, x, train=True)
            return (y**2).mean(), new

        slopes, new = jax.grad(loss, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, slopes), new

    optimizer = torch.optim.SGD(theirs.parameters(), 0.01)
    for _ in range(3):
        params, buffers = step(params, buffers, of_torch(x))
        optimizer.zero_grad()
        (theirs(x) ** 2).mean().backward()
        optimizer.step()
    for n, t in theirs.named_parameters():
        close(params[n], t, rtol=1e-3, atol=1e-4)
    for n, t in theirs.named_buffers():
        close(buffers[n], t)


def test_dropout_in_modules():
    apply, params, buffers = from_torch_module(encoder(0.3))
    x = jnp.ones((2, 5, 8))
    run = lambda k: apply(params, buffers, x, rng=k, train=True)[0]
    np.testing.assert_array_equal(run(key()), run(key()))
    assert not np.array_equal(run(key()), run(jax.random.key(1)))
    with pytest.raises(TypeError, match="rng="):
        apply(params, buffers, x, train=True)
    step = 1e-2
    scaled = lambda s: (apply({n: p * s for n, p in params.items()}, buffers, x, rng=key(), train=True)[0] ** 3).sum()
    np.testing.assert_allclose(jax.grad(scaled)(1.0), (scaled(1 + step) - scaled(1 - step)) / (2 * step), rtol=0.05)
    keys = jax.random.split(key(), 3)
    mapped = jax.vmap(run)(keys)
    np.testing.assert_allclose(mapped[2], run(keys[2]), rtol=1e-4, atol=1e-5)


def test_modes_of_parts_are_kept():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3)).train()
    module[1].eval()
    apply, params, buffers = from_torch_module(module)
    _, new = apply(params, buffers, of_torch(torch.randn(4, 3)))
    assert int(new["0.num_batches_tracked"]) == 1
    assert int(new["1.num_batches_tracked"]) == 0
    _, new = apply(params, buffers, of_torch(torch.randn(4, 3)), train=True)
    assert int(new["1.num_batches_tracked"]) == 1
    assert [m.training for m in module.modules()] == [True, True, False]


def test_a_buffer_that_is_replaced_and_keyword_arguments():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x, *, scale):
            self.count = self.count + 1
            return x * scale * self.count

    module = Counter()
    apply, params, buffers = from_torch_module(module)
    for calls in (1, 2):
        y, buffers = apply(params, buffers, jnp.ones(2), scale=3)
        np.testing.assert_array_equal(y, [3.0 * calls] * 2)
    assert module.count == 0


def test_parameters_that_are_missing_are_told():
    apply, params, buffers = from_torch_module(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="without bias, weight"):
        apply({}, buffers, jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="without num_batches_tracked, running_mean, running_var"):
        apply(params, {}, jnp.ones((2, 3)))
    with pytest.raises(ValueError, match=r"weight, bias .* no shapes"):
        from_torch_module(nn.LazyLinear(3))


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        from_torch_module(torch.sin)  # pyright: ignore
    with pytest.raises(TypeError, match="callable"):
        from_torch_function(3)  # pyright: ignore
