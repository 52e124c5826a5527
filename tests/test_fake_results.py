"""What a trace says of the types of results is what torch's operators give."""

import itertools

import numpy as np
import pytest
import torch
from oracle import agree

from jaxish._core import fake_results, graph
from jaxish._core.errors import ConcretizationTypeError
from jaxish._core.graph import TensorType

pytestmark = pytest.mark.filterwarnings(
    "ignore:ComplexHalf support"
)  # once in a process, in whichever test comes first
aten = torch.ops.aten
CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.float16, torch.int32, torch.uint8, torch.bool, torch.complex64)
NUMBERS = {
    aten.relu.default: [()],
    aten.hardtanh.default: [(-1, 1), (-0.5, 0.5)],
    aten.clamp.default: [(0, None), (None, 2.5), (0, 1)],
    aten.clamp_min.default: [(1,), (0.5,)],
    aten.clamp_max.default: [(1,), (0.5,)],
    aten.pow.Tensor_Scalar: [(2,), (0.5,), (1j,)],
    aten.tril.default: [(), (1,)],
    aten.triu.default: [(), (-1,)],
    aten.constant_pad_nd.default: [([1, 2],), ([0, 1, -1, 2], 2), ([],)],
    aten.to.dtype: [(torch.float32,), (torch.int8,)],
    aten.slice_backward.default: [([2, 6], 1, 0, 6, 2), ([3, 8], -1, 2, 5, 1)],
    aten.select_backward.default: [([2, 3, 4], 2, -1), ([0, 5, 3], 1, 0)],
    aten.diagonal_backward.default: [([3, 3, 3], 1, 0, 2), ([2, 4, 3], 0, 1, 2)],
}
REDUCTIONS = {
    aten.sum.default: [()],
    aten.sum.dim_IntList: [([0],), ([-1], True), ([0, 1],), ([],), (None,)],
    **{f.default: [()] for f in (aten.any, aten.all)},
    **{f.dim: [(0,), (-1, True)] for f in (aten.any, aten.all)},
    **{f.dims: [([0, 1],), ([1], True), (None,)] for f in (aten.any, aten.all)},
}
CASES = [(f, given) for f, several in {**NUMBERS, **REDUCTIONS}.items() for given in several]


def agrees(function, *tensors):
    try:
        wanted = function(*tensors)
    except (RuntimeError, NotImplementedError):
        return  # nothing is said of what torch refuses
    body = graph.trace(lambda *t: [function(*t)], [TensorType.of(t) for t in tensors]).graph
    assert list(body.out_types) == [TensorType.of(wanted)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} {c[1]}")
def test_types_of_results(case, dtype):
    function, given = case
    for shape, turned in itertools.product([(2, 3), (0, 3), (3, 3)], (False, True)):
        if turned:
            agrees(lambda t: function(t.T, *given), torch.ones(shape).to(dtype))
        else:
            agrees(lambda t: function(t, *given), torch.ones(shape).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", [1, 0.5, True, 1j])
def test_types_of_choices(dtype, number):
    for shape in [(2, 3), (3,), (2, 1)]:
        mask = torch.ones(shape, dtype=torch.bool)
        agrees(lambda t, m: torch.where(m, t, number), torch.ones(2, 3).to(dtype), mask)
        agrees(lambda t, m: torch.where(m, number, t), torch.ones(2, 3).to(dtype), mask)
        if not isinstance(number, complex) or dtype.is_complex:  # of which torch's formula refuses what its kernel does
            agrees(lambda t, m: t.masked_fill(m, number), torch.ones(2, 3).to(dtype), mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", [(8,), (3, 5), (2, 6, 3), (0, 4), (2, 1, 5)])
def test_types_and_layouts_of_transforms_and_factors(dtype, shape):
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    transforms = [
        (function, axes, *rest)
        for axes in [(), (-1,), (0,), (0, 1), (1, 0), (-2, -1), (-1, -2), (0, 1, 2)]
        if len({a % len(shape) for a in axes if -len(shape) <= a < len(shape)}) == len(axes)
        for function, *rest in [(aten._fft_c2c.default, 0, True), (aten._fft_r2c.default, 0, True),
                                (aten._fft_r2c.default, 0, False), (aten._fft_c2r.default, 0, 6)]
    ]  # fmt: skip
    for t in (x, x.transpose(0, -1)):
        for function, axes, *rest in transforms:
            laid_out_alike(lambda t: [function(t, [a % t.dim() for a in axes], *rest)], t)
        if t.dim() > 1:
            laid_out_alike(lambda t: list(aten.geqrf.default(t)), t)


def laid_out_alike(function, tensor):
    try:
        wanted = function(tensor)
    except RuntimeError:
        return
    strides = []

    def traced(t):
        found = function(t)
        strides[:] = map(layout, found)
        return found

    graph.trace(lambda t: traced(t.as_strided(tensor.shape, tensor.stride())), [TensorType.of(tensor)])
    assert strides == [*map(layout, wanted)]


def layout(tensor):
    return tensor.dtype, *(
        (n, s if n > 1 and tensor.numel() else None) for n, s in zip(tensor.shape, tensor.stride(), strict=True)
    )


def test_the_cases_above_are_all_that_there_are():
    made = {aten.clone.default, aten.complex.default, *fake_results._NUMBERS}  # which further tests are about
    assert {*NUMBERS, *REDUCTIONS, *made} >= fake_results._BY_KERNEL


MADE = {
    "clone": lambda x, y: x.clone(),
    "div": lambda x, y: x / y,
    "numbers": lambda x, y: x / 2 + y * 1.5,
    "compared": lambda x, y: (x != 0) | (y < 1),
    "where": lambda x, y: torch.where(x > 1, x, y),
    "atan2": lambda x, y: torch.atan2(x, y),
    "row": lambda x, y: x[:1] + y,
    "column": lambda x, y: x[:, :1] * y,
    "complex": lambda x, y: torch.complex(x, y),
    "fft": lambda x, y: torch.ops.aten._fft_c2c(x, [0], 0, True),
    "rfft": lambda x, y: torch.ops.aten._fft_r2c(x, [1], 0, True),
    "irfft": lambda x, y: torch.ops.aten._fft_c2r(x, [1], 0, 4),
    "constants": lambda x, y: torch.ones(2, 3)[:, :1] * y + torch.ones(3),
}


@pytest.mark.parametrize("dtypes", [*itertools.product(DTYPES, repeat=2)], ids=str)
@pytest.mark.parametrize("name", MADE)
def test_types_of_what_is_made_of_two(name, dtypes):
    x, y = (torch.ones(2, 3).to(dtype) for dtype in dtypes)
    s, t = (torch.ones(3, 2).to(dtype).T for dtype in dtypes)
    for pair in ((x, y), (x, t), (s, t), (x[:, ::2], y[:, 1:]), (x[:0], y[:0])):
        agrees(MADE[name], *pair)


VIEWS = {
    "view": lambda t: t.view(-1),
    "view.dtype": lambda t: t.view(torch.int16),
    "permute": lambda t: t.permute(2, 0, 1),
    "select": lambda t: t[1, :, 0],
    "slice": lambda t: t[:, 1:],
    "unsqueeze": lambda t: t.unsqueeze(1),
    "squeeze": lambda t: t[:, :1].squeeze(1),
    "expand": lambda t: t[:2, :, :1].expand(2, 3, 5),
    "diagonal": lambda t: t.diagonal(),
    "unfold": lambda t: t.unfold(1, 2, 1),
    "detach": lambda t: t.detach(),
    "as_strided": lambda t: t.as_strided((2, 2), (2, 1), 1),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("begin", [0, 1])
def test_views_are_remembered_as_views(view, begin):
    def lies(t):
        return t.shape, t.dtype, t.stride(), t.storage_offset()

    wanted = lies(view(torch.ones(3, 3, 4)[begin:]))
    found = []

    def function(t):
        part = t[begin:]
        found.extend(view(part) for _ in range(3))
        assert all(out.untyped_storage()._cdata == t.untyped_storage()._cdata for out in found)
        return found

    graph.trace(function, [TensorType((3, 3, 4), torch.float32, CPU)])
    assert [lies(out) for out in found] == [wanted] * 3


def test_elements_at_indices_are_of_remembered_types():
    for _ in range(2):
        agrees(lambda t, i: t[i, :, i], torch.ones(3, 2, 3), torch.tensor([0, 2]))
        agrees(lambda t, i: t[:, i], torch.ones(3, 2, 3), torch.tensor([[0, 1]]))
        agrees(lambda t, i: t.index_put((i,), t[0, 0]), torch.ones(3, 2, 3), torch.tensor([0, 2]))
        agrees(lambda t, i: torch.cat([t, i]), torch.ones(3), torch.tensor([0, 2]))


def test_indices_that_depend_on_values_are_refused_each_time():
    for _ in range(2):
        with pytest.raises(ConcretizationTypeError, match="depends on values"):
            graph.trace(lambda t: [t[t > 0]], [TensorType((8,), torch.float32, CPU)])


def mixed(j, x):
    """Views, copies that are laid out as views, and what is made anew, of the same shapes."""
    last, bent = j.numpy.einsum("i,j->ji", x, x[::-1])[1].T, j.numpy.where(x > 0, x**3, j.numpy.exp(x))
    return bent.reshape(2, -1).T.ravel() * last + j.numpy.broadcast_to(x[None], (3, x.size))[1] * x.sum()


X = np.array([0.3, -1.2, 0.7, 1.1], np.float32)
FORWARD = {
    "value": lambda j, x: mixed(j, x),
    "jvp": lambda j, x: j.jvp(lambda x: mixed(j, x), (x,), (x * 2,)),
    "twice": lambda j, x: j.jacfwd(j.jacfwd(lambda x: mixed(j, x)))(x),
    "over reverse": lambda j, x: j.jacfwd(j.jacrev(lambda x: mixed(j, x)))(x),
    "of a nested one": lambda j, x: j.jvp(j.jacfwd(j.jacfwd(lambda x: mixed(j, x))), (x,), (x * 2,)),
    "mapped along the last axis": lambda j, x: j.jvp(
        j.vmap(j.jacfwd(lambda x: mixed(j, x)), in_axes=-1, out_axes=-1), (j.numpy.stack([x, x * 2], -1),),
        (j.numpy.stack([x, x + 1], -1),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [list(FORWARD), list(FORWARD)[::-1]], ids=["forwards", "backwards"])
def test_forward_mode_is_right_whatever_is_remembered(order):
    fake_results._types.clear()
    fake_results._views.clear()
    for name in order:
        agree(lambda j, x, f=FORWARD[name]: j.jit(lambda x: f(j, x))(x), X, rtol=1e-4, atol=1e-4)


LIKE = {
    "matrix": lambda: torch.zeros(4, 5),
    "columns": lambda: torch.zeros(4, 5).t(),
    "part": lambda: torch.zeros(6, 7)[1:3, ::2],
    "number": lambda: torch.zeros(()),
    "nothing": lambda: torch.zeros(0, 3),
    "repeated": lambda: torch.zeros(3, 1).expand(3, 5),
    "numbers of two parts": lambda: torch.zeros(2, 3, dtype=torch.complex64)[1:],
}


@pytest.mark.parametrize("like", LIKE.values(), ids=LIKE)
@pytest.mark.parametrize("lanes", [(), (2,), (2, 3), (0,), (1, 4)], ids=str)
def test_zeros_of_tangents_are_laid_out_as_torch_has_them(lanes, like):
    def zeros(tensor, like):
        return aten._new_zeros_with_same_feature_meta.default(tensor, like, self_num_batch_dims=len(lanes))

    def lies(t):
        size = t.untyped_storage().nbytes()
        return t.shape, t.stride(), t.dtype, t.storage_offset(), size, t.untyped_storage().nbytes() // t.dtype.itemsize

    tensor = torch.zeros((*lanes, *like().shape), dtype=torch.float64)
    wanted, found = lies(zeros(tensor, like())), []
    whole = TensorType.of(like()._base if like()._base is not None else like())

    def function(t, w):
        laid = w.as_strided(like().shape, like().stride(), like().storage_offset())
        found.append(lies(zeros(t, laid)))
        return [t]

    graph.trace(function, [TensorType.of(tensor), whole])
    assert found == [wanted]


ZERO = {
    "times": lambda z, x: z * x,
    "and": lambda z, x: z + x,
    "row": lambda z, x: z * x[:1],
    "by": lambda z, x: z / x,
    "copy": lambda z, x: z.clone(),
    "conjugate": lambda z, x: (x * 1j).conj().clone(),
    "view": lambda z, x: z.unsqueeze(0) * x,
    "copied": lambda z, x: torch.zeros_like(x).copy_(z),
    "repeated copy": lambda z, x: x.clone().copy_(x[0]),
}


@pytest.mark.parametrize(
    "dtypes", [*itertools.product((torch.float32, torch.float64, torch.complex64), repeat=2)], ids=str
)
@pytest.mark.parametrize("name", ZERO)
def test_types_of_what_is_made_of_zeros_without_memory(name, dtypes):
    zero, x = dtypes
    agrees(lambda x: ZERO[name](aten._efficientzerotensor.default((2, 3), dtype=zero), x), torch.ones(2, 3, dtype=x))


MADE_OF_NUMBERS = {
    "full": lambda: torch.full((2, 0), 3, dtype=torch.int16, device="cpu"),
    "full of default dtype": lambda: torch.full((3,), 1.5, device="cpu"),
    "zeros": lambda: torch.zeros(2, 3, dtype=torch.complex64, device="cpu"),
    "arange": lambda: torch.arange(5, device="cpu"),
    "arange of parts": lambda: torch.arange(1, 2.5, 0.25, device="cpu"),
    "arange from": lambda: torch.arange(2, 7, device="cpu"),
    "ones": lambda: torch.ones((), dtype=torch.uint16, device="cpu"),
    "arange down": lambda: torch.arange(7, -2, -3, dtype=torch.float16, device="cpu"),
    "number": lambda: torch.scalar_tensor(True, dtype=torch.bool, device="cpu"),
}


@pytest.mark.parametrize("make", MADE_OF_NUMBERS.values(), ids=MADE_OF_NUMBERS)
def test_types_of_what_is_made_of_numbers(make):
    for default in (torch.float32, torch.float64, torch.float32):  # which is not part of what is remembered
        torch.set_default_dtype(default)
        try:
            agrees(make)
        finally:
            torch.set_default_dtype(torch.float32)


def test_layouts_of_gradients_of_convolutions():
    x, w = torch.ones(2, 3, 5, 6), torch.ones(4, 3, 3, 3)

    def gradients(g):
        return list(aten.convolution_backward.default(g, x, w, [4], *[[1, 1]] * 3, False, [0, 0], 1, [True] * 3))

    laid_out_alike(gradients, torch.ones(2, 4, 5, 6))


@pytest.mark.parametrize("mask", [(True, True, True), (True, True, False), (True, False, False), (False, True, True)])
def test_types_of_gradients_of_convolutions(mask):
    def gradients(g, x, w):
        made = aten.convolution_backward.default(g, x, w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
        return [t for t in made if t is not None]

    given = torch.ones(2, 4, 5, 6), torch.ones(2, 3, 5, 6), torch.ones(4, 3, 3, 3)
    for tensors in (given, [t.double() for t in given]):
        body = graph.trace(gradients, [TensorType.of(t) for t in tensors]).graph
        assert list(body.out_types) == [TensorType.of(t) for t in gradients(*tensors)]


def test_copies_that_do_not_fit_are_refused():
    for source in [(4,), (1, 2, 3), (3, 2)]:
        with pytest.raises(RuntimeError):
            torch.zeros(2, 3).copy_(torch.zeros(source))
        with pytest.raises(RuntimeError):
            graph.trace(
                lambda t, s: [t.clone().copy_(s)], [TensorType(s, torch.float32, CPU) for s in ((2, 3), source)]
            )
