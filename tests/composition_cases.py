"""Expressions of up to three arrays for test_compositions.py: every differentiable function of jnp, lax, nn and random.

A case is an expression in `x`, `y`, `z` and the letter of each one's domain with its shape: `"x:+3,4"` is a 3 by 4 array of
positive numbers. Domains: `~` real (the default), `+` positive, `-` within (-0.9, 0.9), `%` within (0.1, 0.9), `>` above 1.
"""

ELEMENTWISE = {
    "~": """jnp.abs jnp.absolute jnp.fabs jnp.negative jnp.positive jnp.sin jnp.cos jnp.tan jnp.sinh jnp.cosh jnp.tanh jnp.arctan jnp.atan
        jnp.arcsinh jnp.asinh jnp.exp jnp.exp2 jnp.expm1 jnp.square jnp.cbrt jnp.sinc jnp.i0 jnp.sign jnp.floor jnp.ceil
        jnp.trunc jnp.rint jnp.round jnp.around jnp.deg2rad jnp.rad2deg jnp.degrees jnp.radians jnp.reciprocal jnp.real jnp.conj
        jnp.conjugate jnp.nan_to_num jnp.copy jnp.asarray jnp.array jnp.zeros_like jnp.ones_like
        lax.abs lax.neg lax.sin lax.cos lax.tan lax.sinh lax.cosh lax.tanh lax.atan lax.asinh lax.exp lax.exp2 lax.expm1 lax.square
        lax.cbrt lax.sign lax.floor lax.ceil lax.round lax.logistic lax.erf lax.erfc lax.bessel_i0e lax.bessel_i1e lax.reciprocal
        lax.stop_gradient lax.optimization_barrier
        nn.celu nn.elu nn.gelu nn.hard_sigmoid nn.hard_silu nn.hard_swish nn.hard_tanh nn.identity nn.leaky_relu nn.log_sigmoid nn.mish
        nn.relu nn.relu6 nn.selu nn.sigmoid nn.silu nn.soft_sign nn.softplus nn.sparse_plus nn.sparse_sigmoid nn.squareplus
        nn.swish nn.tanh""",
    "+": """jnp.sqrt jnp.log jnp.log2 jnp.log10 jnp.log1p jnp.positive lax.sqrt lax.rsqrt lax.log lax.log1p lax.lgamma lax.digamma
        nn.log1mexp""",
    "-": "jnp.arcsin jnp.asin jnp.arccos jnp.acos jnp.arctanh jnp.atanh lax.asin lax.acos lax.atanh lax.erf_inv",
    ">": "jnp.arccosh jnp.acosh lax.acosh",
}  # fmt: skip

PAIRS = {
    "~~": """jnp.add jnp.subtract jnp.multiply jnp.maximum jnp.minimum jnp.fmax jnp.fmin jnp.hypot jnp.logaddexp jnp.logaddexp2 jnp.arctan2
        jnp.atan2 jnp.copysign jnp.heaviside""",
    "~+": "jnp.divide jnp.true_divide jnp.mod jnp.remainder jnp.fmod jnp.floor_divide",
    "+~": "jnp.power jnp.pow jnp.float_power",
}  # fmt: skip

# Functions of lax take equal shapes.
EQUAL_PAIRS = {
    "~~": "lax.add lax.sub lax.mul lax.max lax.min lax.atan2",
    "~+": "lax.div lax.rem",
    "+~": "lax.pow",
}

WITH_NUMBERS = [
    "x + 2", "2.5 - x", "x * True", "3 / x", "x ** 3", "x ** 2.5", "2.0 ** x", "x % 2", "x // 0.7", "jnp.maximum(x, 0.5)", "jnp.minimum(1, x)",
    "jnp.where(x > 1, x, 0.5)", "jnp.where(x > 1, 2, x)", "jnp.clip(x, 0.5, 1)", "jnp.hypot(x, 1)", "jnp.arctan2(x, 2)", "jnp.arctan2(2, x)",
    "jnp.logaddexp(x, 1.0)", "jnp.power(x, 2)", "jnp.copysign(2.0, x)", "jnp.ldexp(x, 2)", "lax.integer_pow(x, 3)", "x @ (x * 2).T if x.ndim == 2 else x * x",
    "jnp.nan_to_num(x, nan=0.0)", "jnp.full_like(x, 2) * x", "x * jnp.asarray(0.5)", "lax.clamp(0.5, x, 1.0)", "lax.full_like(x, 1) + x", "abs(-x)",
    "jnp.float_power(x, 2)", "jnp.divmod(x, 2)", "divmod(x, 2)", "jnp.sinc(x * 0.5)", "(x, x * 2, x)", "x.at[...].set(0.5) * x", "lax.polygamma(1.0, x)" , "jnp.modf(x)[0]", "jnp.frexp(x)[0]", "jnp.fmod(x, 2)", "jnp.heaviside(x, 0.5) * x", "lax.reduce_precision(x, 8, 10)",
]  # fmt: skip

REDUCTIONS = [
    "jnp.sum(x)", "jnp.sum(x, 1)", "jnp.sum(x, -1, keepdims=True)", "jnp.sum(x, where=x > 0)", "jnp.prod(x)", "jnp.prod(x, 0)", "jnp.mean(x)", "jnp.mean(x, 1)",
    "jnp.var(x)", "jnp.var(x, 0, ddof=1)", "jnp.std(x, 1)", "jnp.max(x)", "jnp.max(x, 1)", "jnp.min(x)", "jnp.min(x, 0)", "jnp.amax(x, 0)",
    "jnp.amin(x, 1)", "jnp.ptp(x)", "jnp.ptp(x, 1)", "jnp.nansum(x)", "jnp.nanprod(x, 1)", "jnp.nanmean(x)", "jnp.nanvar(x, 1)", "jnp.nanstd(x)",
    "jnp.nanmax(x, 1)", "jnp.nanmin(x)", "jnp.nanmedian(x)", "jnp.nanpercentile(x, 30)", "jnp.nanquantile(x, 0.3, axis=1)", "jnp.median(x)",
    "jnp.median(x, 1)", "jnp.quantile(x, 0.3)", "jnp.percentile(x, 30, axis=0)", "jnp.quantile(x, jnp.array([0.1, 0.7]), axis=1)", "jnp.cumsum(x)",
    "jnp.cumsum(x, 1)", "jnp.cumprod(x, 0)", "jnp.cumprod(x)", "jnp.nancumsum(x, 1)", "jnp.nancumprod(x, 1)", "jnp.cumulative_sum(x, axis=0, include_initial=True)",
    "jnp.cumulative_prod(x, axis=1)", "jnp.trace(x)", "jnp.average(x, weights=x * x + 1)", "lax.cumsum(x, 0, reverse=True)", "lax.cumprod(x, 1)",
    "lax.cummax(x, 1)", "lax.cummin(x, 0, reverse=True)", "lax.cumlogsumexp(x, 1)", "lax.reduce_sum(x, (0,))", "lax.reduce_prod(x, (1,))", "lax.reduce_max(x, (0, 1))",
    "lax.reduce_min(x, (1,))", "lax.reduce(x, 0.0, lax.add, (1,))", "lax.reduce(x, -jnp.inf, lax.max, (0,))", "nn.softmax(x)", "nn.softmax(x, 0)", "nn.log_softmax(x)",
    "nn.logsumexp(x)", "nn.logsumexp(x, 1)", "nn.logsumexp(x, 0, b=2.0)", "nn.logmeanexp(x, 1)", "nn.standardize(x)", "nn.glu(x)",
    "jnp.linalg.norm(x)", "jnp.linalg.norm(x, axis=1)", "jnp.linalg.norm(x, 1)", "jnp.linalg.norm(x, 'nuc')", "jnp.linalg.norm(x, 2)", "jnp.linalg.norm(x, 3, 1)",
    "jnp.linalg.vector_norm(x, axis=0)", "jnp.linalg.matrix_norm(x)", "jnp.linalg.norm(x, jnp.inf)", "jnp.apply_along_axis(jnp.sum, 1, x)",
    "jnp.apply_over_axes(jnp.sum, x, [0, 1])", "lax.associative_scan(lambda a, b: a * b, x)", "lax.associative_scan(jnp.add, x, axis=1, reverse=True)",
    "jnp.logaddexp.reduce(x, axis=1)", "jnp.add.accumulate(x, axis=1)", "jnp.multiply.reduce(x, axis=0)", "jnp.add.reduceat(x, jnp.array([0, 2]), axis=1)",
    "jnp.add.outer(x[0], x[1])", "jnp.maximum.reduce(x, axis=1)", "jnp.cov(x)", "jnp.corrcoef(x)", "jnp.unwrap(x * 3)", "jnp.diff(x)", "jnp.diff(x, 2, 1)", "jnp.ediff1d(x)",
    "jnp.gradient(x)", "jnp.gradient(x, 0.5, axis=1)", "jnp.trapezoid(x)", "jnp.trapezoid(x, dx=0.5, axis=0)",
    "lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), 'VALID')", "lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), 'SAME')",
]  # fmt: skip

SHAPES = [
    "x.reshape(4, 3)", "jnp.reshape(x, -1)", "x.T", "jnp.transpose(x)", "jnp.permute_dims(x, (1, 0))", "jnp.matrix_transpose(x)", "jnp.roll(x, 1)",
    "jnp.roll(x, 2, 1)", "jnp.roll(x, (1, 2), (0, 1))", "jnp.flip(x)", "jnp.fliplr(x)", "jnp.flipud(x)", "jnp.tile(x, 2)", "jnp.tile(x, (2, 1, 2))", "jnp.repeat(x, 2)",
    "jnp.repeat(x, 2, 1)", "jnp.repeat(x, jnp.array([1, 0, 2]), 0, total_repeat_length=3)", "jnp.pad(x, 1)", "jnp.pad(x, 2, 'reflect')", "jnp.pad(x, 1, 'edge')", "jnp.pad(x, 1, 'symmetric')",
    "jnp.pad(x, 2, 'wrap')", "jnp.pad(x, 1, 'linear_ramp')", "jnp.pad(x, 1, 'mean')", "jnp.pad(x, 1, 'maximum')", "jnp.pad(x, 1, constant_values=2.0)", "jnp.tril(x)", "jnp.triu(x, 1)", "jnp.diag(x)",
    "jnp.diag(x[0], 1)", "jnp.diagonal(x, 1)", "jnp.diagflat(x[0])", "jnp.moveaxis(x, 0, 1)", "jnp.rollaxis(x, 1)", "jnp.swapaxes(x, 0, 1)", "jnp.squeeze(x[:1])", "jnp.expand_dims(x, 1)",
    "jnp.rot90(x)", "jnp.rot90(x, 3)", "jnp.broadcast_to(x, (2, 3, 4))", "jnp.broadcast_arrays(x, x[0])", "jnp.ravel(x)", "jnp.resize(x, (2, 7))", "jnp.concatenate([x, x * 2])", "jnp.concat([x, x], axis=1)",
    "jnp.stack([x, x * x], 1)", "jnp.hstack([x, x])", "jnp.vstack([x, x[0]])", "jnp.dstack([x, x])", "jnp.column_stack([x, x[:, 0]])", "jnp.split(x, 2, 1)", "jnp.array_split(x, 2)",
    "jnp.hsplit(x, 2)", "jnp.vsplit(x, 3)", "jnp.dsplit(x[None], 2)", "jnp.unstack(x)", "jnp.append(x, 1)", "jnp.append(x, x, 0)", "jnp.insert(x, 1, 9.0, 1)", "jnp.insert(x, 2, x[0], 0)", "jnp.delete(x, 1, 1)",
    "jnp.delete(x, np.array([0, 2]), 1)", "jnp.array([x[0, 0], 1.0, x[1, 2]])", "jnp.array([[x[0, 0], 1], [2, 3]])", "jnp.block([[x, x], [x, x]])", "jnp.atleast_1d(x[0, 0])", "jnp.atleast_2d(x[0])",
    "jnp.atleast_3d(x)", "jnp.meshgrid(x[0], x[1])", "jnp.vander(x[0])", "jnp.sort(x)", "jnp.sort(x, 0, descending=True)", "jnp.partition(x, 2)", "lax.sort(x, dimension=0)", "lax.sort([x, x * 2], num_keys=1)[1]",
    "lax.sort_key_val(x, x * x)", "lax.top_k(x, 2)[0]", "lax.approx_max_k(x, 2)[0]", "lax.approx_min_k(x, 2)[0]", "jnp.fill_diagonal(x, 2.0, inplace=False)", "jnp.fill_diagonal(x, x[0, :3], inplace=False)",
    "jnp.place(x, np.eye(3, 4) > 0, x[0], inplace=False)", "jnp.put(x, jnp.array([1, 5]), x[0, :2], inplace=False)", "jnp.put_along_axis(x, jnp.array([[0], [1], [3]]), 7.0, 1, inplace=False)",
    "jnp.extract(np.eye(3, 4) > 0, x, size=3)", "jnp.compress(np.array([True, False, True]), x, 0, size=2)", "jnp.choose(jnp.array([0, 1, 2, 1]), x, mode='clip')", "jnp.select([x > 1, x > 0], [x, -x], 0.5)", "jnp.piecewise(x, [x < 0, x > 1], [0.0, lambda v: v * v, 2])",
    "jnp.take(x, jnp.array([0, 2, 2]), 1)", "jnp.take(x, 3)", "jnp.take(x, jnp.array([0, -1, 7]), mode='clip')", "jnp.take(x, jnp.array([0, 9]), 1, mode='wrap')", "jnp.take_along_axis(x, jnp.argsort(x), 1)", "jnp.interp(x, jnp.array([-1.0, 0.0, 2.0]), jnp.array([3.0, 1.0, 5.0]))",
    "lax.broadcast(x, (2,))", "lax.broadcast_in_dim(x, (3, 2, 4), (0, 2))", "lax.broadcast_to_rank(x, 3)", "lax.collapse(x, 0)", "lax.concatenate([x, x], 1)", "lax.expand_dims(x, (0, 2))", "lax.pad(x, 0.5, ((1, 0, 1), (-1, 1, 0)))",
    "lax.reshape(x, (2, 6))", "lax.rev(x, (1,))", "lax.slice(x, (0, 1), (3, 4), (2, 1))", "lax.slice_in_dim(x, 1, 4, 2, 1)", "lax.squeeze(x[:1], (0,))", "lax.transpose(x, (1, 0))", "lax.tile(x, (2, 1))", "lax.split(x, (1, 3), 1)", "lax.stack([x, x])", "lax.unstack(x)",
    "lax.dynamic_slice(x, (1, jnp.int32(1)), (2, 2))", "lax.dynamic_slice_in_dim(x, 5, 2, 1)", "lax.dynamic_index_in_dim(x, 1, 1)", "lax.index_in_dim(x, 1)", "lax.index_take(x, (jnp.array([0, 2]),), (0,))",
    "lax.convert_element_type(x, 'float16').astype('float32')", "lax.select(x > 0, x, x * 2)", "lax.select_n(x > 0, x * 3, x)", "jnp.astype(x, 'float32')", "lax.gather(x, jnp.array([[0], [2]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4))",
    "x[0]", "x[-1, 1:]", "x[:, jnp.array([2, 0, 3])]", "x[jnp.array([0, 2]), jnp.array([1, 3])]", "x[..., None]", "x[::-1, ::2]", "x[2, 3]", "x[jnp.int32(1)]", "x[jnp.argmax(x[:, 0])]", "x[:, jnp.array([[0, 1], [3, 2]])]",
    "x.at[:, 9].get(mode='fill', fill_value=0.0)", "x.at[jnp.array([0, 7])].get(mode='fill', fill_value=1.0)", "x[np.array([True, False, True])]", "jnp.unique(x, size=12)", "jnp.argmax(x) * x", "lax.argmax(x, 0, 'int32') + x", "jnp.nonzero(x > 0, size=3)[0] * x[0, :3]",
    "jnp.searchsorted(jnp.sort(x[0]), x[1]) * x[1]", "jnp.histogram(x, 3, range=(-2, 2), weights=x)[0]", "jnp.bincount(jnp.array([0, 1, 1, 3]), weights=x[0], length=5)", "jnp.digitize(x, jnp.array([0.0, 1.0])) * x",
    "jnp.flip(x, 1)", "jnp.identity(3) @ x", "jnp.eye(3) * x[0, 0]", "jnp.full((2,), x[0, 0])", "jnp.linspace(x[0], x[1], 3)", "jnp.logspace(x[0, 0], 1, 3)", "jnp.tri(3) * x[0, 1]", "jnp.angle(x)", "jnp.imag(x) + x", "jnp.size(x) * x",
    "jnp.union1d(x[0], x[1], size=8)", "jnp.intersect1d(x[0], x[0] * 1, size=4)", "jnp.setdiff1d(x[0], x[1], size=4)", "jnp.setxor1d(x[0], x[1], size=8)", "jnp.polyval(x[0], x[1])", "jnp.polyadd(x[0], x[1])", "jnp.polysub(x[0], x[1, :2])", "jnp.polymul(x[0], x[1])",
    "jnp.polyder(x[0])", "jnp.polyint(x[0], 2)", "jnp.polydiv(x[0], x[1, :2])", "jnp.poly(x[0, :2])", "jnp.polyfit(jnp.arange(4.0), x[0], 2)", "jnp.ix_(x[0], x[1])[0]", "jnp.geomspace(jnp.abs(x[0]) + 1, 5.0, 3)",
]  # fmt: skip

COUNTED = "[0, 2, 2, 1]"  # repeated indices
UPDATES = [  # of x: 3, 4 by y: (), 4 or 3, 4
    f"x.at[{index}].{method}({value})"
    for method in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")
    for index, value in (
        ("0", "y"), ("1, 2", "y"), (":, 1", "y"), ("0", "v"), ("::2", "y"), ("::-1, 1:", "y"), ("jnp.int32(1)", "v"), (f"jnp.array({COUNTED})", "y"),
        ("jnp.array([0, 1, 2]), jnp.array([1, 3, 0])", "y"), (f":, jnp.array({COUNTED})", "y"), ("jnp.array([0, 5])", "v"), ("jnp.argmax(x[:, 0])", "v"), ("-1, -2", "y"), ("None, 0", "v"),
    )
    if not (method in ("multiply", "divide", "power") and "jnp.array" in index)  # JAX has no derivative
]  # fmt: skip

TWO = [
    ("jnp.where(x > 0, x, y)", "x:3,4 y:4"), ("jnp.where(y > 0, x, y)", "x:3,4 y:"), ("jnp.clip(x, y, y + 1)", "x:3,4 y:"), ("lax.clamp(y, x, y + 1)", "x:3,4 y:"),
    ("jnp.select([x > y, x > 0], [x, y], 0.5)", "x:3,4 y:4"), ("lax.select(x > y, x, y)", "x:3,4 y:3,4"), ("jnp.interp(x, jnp.sort(y), y * 2)", "x:3 y:4"),
    ("jnp.dot(x, y)", "x:3,4 y:4"), ("jnp.dot(x, y)", "x:3,4 y:4,2"), ("jnp.dot(x, y)", "x:4 y:4"), ("jnp.dot(x, y)", "x: y:3,4"), ("jnp.dot(x, y)", "x:2,3,4 y:5,4,2"), ("jnp.matmul(x, y)", "x:3,4 y:4,2"),
    ("jnp.matmul(x, y)", "x:2,3,4 y:4,2"), ("jnp.matmul(x, y)", "x:4 y:2,4,3"), ("jnp.matmul(x, y)", "x:2,1,3,4 y:5,4,2"), ("x @ y", "x:4 y:4"), ("jnp.vdot(x, y)", "x:3,4 y:3,4"), ("jnp.inner(x, y)", "x:3,4 y:2,4"),
    ("jnp.outer(x, y)", "x:3 y:4"), ("jnp.kron(x, y)", "x:2,3 y:3,2"), ("jnp.cross(x, y)", "x:4,3 y:3"), ("jnp.tensordot(x, y, 2)", "x:2,3,4 y:3,4,5"), ("jnp.tensordot(x, y, ((0,), (1,)))", "x:3,4 y:2,3"),
    ("jnp.einsum('ij,kj->ik', x, y)", "x:3,4 y:2,4"), ("jnp.einsum('ij,j', x, y)", "x:3,4 y:4"), ("jnp.einsum('ii->i', x)", "x:3,3"), ("jnp.einsum('...ij,...jk->...ik', x, y)", "x:2,3,4 y:4,2"), ("jnp.einsum('i,j,ij->', y, x[0], jnp.outer(y, x[0]))", "x:3,4 y:3"),
    ("jnp.vecdot(x, y)", "x:3,4 y:4"), ("jnp.matvec(x, y)", "x:3,4 y:4"), ("jnp.vecmat(x, y)", "x:3 y:3,4"), ("jnp.convolve(x, y)", "x:5 y:3"), ("jnp.convolve(x, y, 'same')", "x:5 y:3"), ("jnp.correlate(x, y)", "x:5 y:3"),
    ("jnp.average(x, 1, y)", "x:3,4 y:+4"), ("jnp.trapezoid(x, jnp.sort(y))", "x:3,4 y:4"), ("jnp.concatenate([x, y])", "x:2,4 y:3,4"), ("jnp.stack([x, y])", "x:3,4 y:3,4"), ("jnp.append(x, y)", "x:3,4 y:2"),
    ("jnp.insert(x, 1, y, 1)", "x:3,4 y:"), ("jnp.array([x, y, 1.0])", "x: y:"), ("jnp.linspace(x, y, 5)", "x:3 y:"), ("jnp.linspace(x, y, 5, axis=1)", "x:3 y:3"), ("jnp.logspace(x, y, 3)", "x: y:"), ("jnp.geomspace(x, y, 3)", "x:+ y:>"),
    ("jnp.full((2, 3), x) * y", "x: y:3"), ("jnp.meshgrid(x, y)", "x:3 y:4"), ("jnp.polyval(x, y)", "x:4 y:2,3"), ("jnp.logaddexp(x, y).sum()", "x:3 y:3"), ("jnp.append(x, y, 0)", "x:3,4 y:2,4"), ("jnp.block([x, y])", "x:3,2 y:3,4"),
    ("jnp.cov(x, y)", "x:4 y:4"), ("jnp.corrcoef(x, y)", "x:4 y:4"), ("jnp.broadcast_arrays(x, y)", "x:3,1 y:4"), ("jnp.pad(x, 1, constant_values=y)", "x:3,4 y:"), ("jnp.nan_to_num(x, nan=y)", "x:3,4 y:"), ("jnp.gradient(x, y)", "x:3,4 y:+"),
    ("lax.dot(x, y)", "x:3,4 y:4,2"), ("lax.batch_matmul(x, y)", "x:2,3,4 y:2,4,5"), ("lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))", "x:2,3,4 y:2,4,5"), ("lax.dot_general(x, y, (((0,), (0,)), ((), ())))", "x:3,4 y:3,2"),
    ("lax.conv(x, y, (1, 1), 'SAME')", "x:2,3,5,5 y:4,3,3,3"), ("lax.conv_general_dilated(x, y, (2,), 'VALID', (1,), (1,))", "x:2,3,6 y:4,3,2"), ("lax.conv_general_dilated(x, y, (1,), 'SAME', feature_group_count=2)", "x:2,4,6 y:4,2,3"),
    ("lax.conv_transpose(x, y, (2,), 'SAME', dimension_numbers=('NCH', 'OIH', 'NCH'))", "x:2,3,4 y:3,3,3"), ("lax.conv_general_dilated_patches(x, (2, 2), (1, 1), 'VALID') * y", "x:1,2,3,3 y:"), ("lax.conv_with_general_padding(x, y, (1,), [(1, 1)], None, None)", "x:2,3,6 y:4,3,2"),
    ("lax.conv_general_dilated_local(x, y, (1,), 'VALID', (2,))", "x:2,3,4 y:4,6,3"), ("lax.dynamic_update_slice(x, y, (1, 1))", "x:3,4 y:2,2"), ("lax.dynamic_update_slice_in_dim(x, y, 1, 1)", "x:3,4 y:3,2"), ("lax.dynamic_update_index_in_dim(x, y, 1, 0)", "x:3,4 y:4"),
    ("lax.pad(x, y, ((1, 1, 0), (0, 0, 1)))", "x:3,4 y:"), ("lax.concatenate([x, y], 0)", "x:2,4 y:3,4"), ("lax.igammac(x, y)", "x:+3 y:+3"), ("lax.betainc(2.0, 3.0, x)", "x:%3"), ("lax.complex(x, y).real", "x:3 y:3"), ("abs(lax.complex(x, y))", "x:3 y:3"),
    ("jnp.real(lax.complex(x, y) ** 2)", "x:3 y:3"), ("jnp.angle(lax.complex(x, y))", "x:+3 y:3"), ("jnp.exp(lax.complex(x, y)).imag", "x:3 y:3"), ("lax.conj(lax.complex(x, y)).imag", "x:3 y:3"), ("lax.imag(lax.complex(x, y)) + lax.real(lax.complex(x, y))", "x:3 y:3"),
    ("lax.scatter(x, jnp.array([[0], [2]]), y, lax.ScatterDimensionNumbers((1,), (0,), (0,)))", "x:3,4 y:2,4"), ("lax.scatter_add(x, jnp.array([[0], [0]]), y, lax.ScatterDimensionNumbers((1,), (0,), (0,)))", "x:3,4 y:2,4"), ("lax.scatter_sub(x, jnp.array([[0], [0]]), y, lax.ScatterDimensionNumbers((1,), (0,), (0,)))", "x:3,4 y:2,4"),
    ("lax.scatter_mul(x, jnp.array([[0], [1]]), y, lax.ScatterDimensionNumbers((1,), (0,), (0,)), unique_indices=True)", "x:3,4 y:2,4"), ("lax.scatter_min(x, jnp.array([[0], [1]]), y, lax.ScatterDimensionNumbers((1,), (0,), (0,)))", "x:3,4 y:2,4"), ("lax.scatter_max(x, jnp.array([[0], [1]]), y, lax.ScatterDimensionNumbers((1,), (0,), (0,)))", "x:3,4 y:2,4"),
    ("lax.scatter_apply(x, jnp.array([[0]]), jnp.sin, lax.ScatterDimensionNumbers((0,), (0,), (0,)), update_shape=(1, 4)) * y", "x:3,4 y:"), ("lax.ragged_dot(x, y, jnp.array([2, 1]))", "x:3,4 y:2,4,5"),
    ("lax.scan(lambda c, t: (c * t + y, c), y, x)", "x:5 y:"), ("lax.scan(lambda c, t: (jnp.sin(c @ y) + t, c.sum()), x[0], x)", "x:3,4 y:4,4"), ("lax.scan(lambda c, t: (c.at[0].set(t * y), c[1]), jnp.zeros(3), x)", "x:5 y:"),
    ("lax.fori_loop(0, 3, lambda i, c: c * y + x[i], x[0])", "x:5 y:"), ("lax.fori_loop(0, 3, lambda i, c: c.at[i].set(c[i] * y), x)", "x:5 y:"), ("lax.cond(True, lambda a: jnp.sin(a) * y, lambda a: a + y, x)", "x:3 y:"), ("lax.cond(y > 0, lambda a: jnp.sin(a) * y, lambda a: a + y, x)", "x:3 y:"),
    ("lax.switch(jnp.int32(y * 0 + 1), [lambda a: a, lambda a: a * y], x)", "x:3 y:"), ("lax.map(lambda t: t * y, x)", "x:3 y:"), ("lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y))[1]", "x:5 y:5"), ("jax.checkpoint(lambda a, b: jnp.sin(a * b))(x, y)", "x:3 y:"),
    ("lax.custom_linear_solve(lambda v: x @ v, y, lambda m, b: jnp.linalg.solve(x, b), lambda m, b: jnp.linalg.solve(x.T, b))", "x:3,3 y:3"), ("lax.custom_root(lambda v: v**3 - x, y * 0 + 1, lambda f, v: jnp.cbrt(x), lambda g, b: b / g(1.0))", "x:+ y:+"),
    ("nn.glu(x * y)", "x:3,4 y:"), ("nn.celu(x, y)", "x:3 y:+"), ("nn.elu(x, y)", "x:3 y:+"), ("nn.leaky_relu(x, y)", "x:3 y:+"), ("nn.squareplus(x, y)", "x:3 y:+"), ("nn.standardize(x, mean=y)", "x:3,4 y:3,1"), ("nn.softmax(x, where=x > -0.5, axis=-1) * y", "x:3,4 y:"), ("nn.logsumexp(x, 1, b=y)", "x:3,4 y:+3,4"),
    ("nn.one_hot(jnp.array([0, 2]), 4) @ y + x", "x:2,3 y:4,3"), ("nn.dot_product_attention(x, y, y)", "x:4,2,3 y:5,2,3"), ("nn.dot_product_attention(x, x, y, is_causal=True)", "x:4,2,3 y:4,2,3"), ("nn.scaled_matmul(x, y, jnp.ones((1, 3, 2)), jnp.ones((1, 4, 2)))", "x:1,3,4 y:1,4,4"),
    ("jnp.linalg.inv(x) * y", "x:3,3 y:"), ("jnp.linalg.det(x) * y", "x:3,3 y:"), ("jnp.linalg.slogdet(x)[1]", "x:3,3"), ("jnp.linalg.solve(x, y)", "x:3,3 y:3"), ("jnp.linalg.solve(x, y)", "x:3,3 y:3,2"), ("jnp.linalg.svd(x, compute_uv=False)", "x:3,4"), ("jnp.linalg.svdvals(x)", "x:3,4"), ("jnp.linalg.pinv(x)", "x:3,4"),
    ("jnp.linalg.eigvalsh(x + x.T)", "x:3,3"), ("abs(jnp.linalg.eigh(x + x.T)[1])", "x:3,3"), ("jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(3))", "x:3,3"), ("jnp.linalg.qr(x)[1] ** 2", "x:3,3"), ("jnp.linalg.matrix_power(x, 3)", "x:3,3"), ("jnp.linalg.matrix_power(x, -2)", "x:3,3"), ("jnp.linalg.multi_dot([x, y, x])", "x:3,3 y:3,3"),
    ("jnp.linalg.lstsq(x, y)[0]", "x:4,3 y:4"), ("jnp.linalg.cond(x)", "x:3,3"), ("jnp.linalg.tensorinv(x, 1)", "x:6,2,3"), ("jnp.linalg.tensorsolve(x, y)", "x:6,2,3 y:6"), ("jnp.linalg.trace(x) * y", "x:3,3 y:"), ("jnp.linalg.diagonal(x) * y", "x:3,3 y:"), ("jnp.linalg.outer(x, y)", "x:3 y:4"), ("jnp.linalg.cross(x, y)", "x:3 y:3"), ("jnp.linalg.vecdot(x, y)", "x:3,4 y:4"), ("jnp.linalg.matmul(x, y)", "x:3,4 y:4,2"), ("jnp.linalg.tensordot(x, y, 1)", "x:3,4 y:4,2"), ("jnp.linalg.matrix_transpose(x)", "x:3,4"),
    ("abs(jnp.linalg.eigvals(x))", "x:3,3"), ("lax.linalg.triangular_solve(x, y, left_side=True, lower=True)", "x:3,3 y:3,2"), ("lax.linalg.cholesky(x @ x.T + 9 * jnp.eye(3))", "x:3,3"), ("lax.linalg.lu(x)[0]", "x:3,3"), ("lax.linalg.eigh(x + x.T)[1]", "x:3,3"), ("lax.linalg.qr(x, full_matrices=False)[1]", "x:4,3"), ("lax.linalg.svd(x, full_matrices=False)[1]", "x:4,3"), ("lax.linalg.tridiagonal_solve(x[0], x[1] + 4, x[2], y)", "x:-3,4 y:4,2"), ("lax.linalg.symmetric_product(x, y)", "x:3,4 y:3,3"), ("lax.linalg.householder_product(x, y)", "x:4,3 y:3"),
    ("jnp.abs(jnp.fft.fft(x))", "x:3,4"), ("jnp.fft.rfft(x).real * y", "x:6 y:"), ("jnp.fft.irfft(jnp.fft.rfft(x) * y)", "x:6 y:"), ("jnp.fft.fft2(x).imag", "x:3,4"), ("jnp.fft.fftn(x).real", "x:2,3,4"), ("jnp.fft.ifft(x).real", "x:4"), ("jnp.fft.rfft2(x).imag", "x:3,4"), ("jnp.fft.irfft2(x + 0j)", "x:3,4"), ("jnp.fft.hfft(x + 0j)", "x:4"), ("jnp.fft.ihfft(x).real", "x:4"), ("jnp.fft.fftshift(x)", "x:3,4"), ("jnp.fft.ifftshift(x)", "x:3,4"), ("lax.fft(x + 0j, 'FFT', (4,)).imag", "x:3,4"), ("jnp.fft.rfftn(x).real", "x:2,3,4"), ("jnp.fft.ifft2(x).real", "x:3,4"), ("jnp.fft.ifftn(x).imag", "x:3,4"), ("jnp.fft.irfftn(x + 0j)", "x:3,4"),
    ("random.normal(K, (3,)) * x + y", "x:3 y:"), ("random.uniform(K, (3,), minval=x, maxval=x + y)", "x:3 y:+"), ("random.gamma(K, x) * y", "x:+3 y:"), ("random.loggamma(K, x) * y", "x:+3 y:"), ("random.beta(K, x, y)", "x:+3 y:+3"), ("random.dirichlet(K, x)", "x:+3"), ("random.chisquare(K, x)", "x:+3"), ("random.t(K, x)", "x:+3"), ("random.exponential(K, (3,)) / x", "x:+3"), ("random.laplace(K, (3,)) * x", "x:3"),
    ("random.truncated_normal(K, x, x + y)", "x:3 y:+3"), ("random.multivariate_normal(K, x, y @ y.T + 4 * jnp.eye(3))", "x:3 y:3,3"), ("random.pareto(K, x)", "x:+3"), ("random.weibull_min(K, x, y)", "x:+3 y:+3"), ("random.f(K, x, y)", "x:+3 y:+3"), ("random.gumbel(K, (3,)) + x", "x:3"), ("random.logistic(K, (3,)) * x", "x:3"), ("random.rayleigh(K, x)", "x:+3"), ("random.triangular(K, x, x + y, x + 2 * y)", "x:3 y:+3"), ("random.wald(K, x)", "x:+3"), ("random.lognormal(K, x)", "x:+3"), ("random.double_sided_maxwell(K, x, y)", "x:3 y:3"), ("random.generalized_normal(K, x, (3,))", "x:+"), ("random.permutation(K, x)", "x:5"), ("random.choice(K, x, (3,))", "x:5"),
    ("jax.vmap(lambda t: lax.psum(t, 'i') * t, axis_name='i')(x) * y", "x:3 y:"), ("jax.vmap(lambda t: lax.pmean(t, 'i') * t, axis_name='i')(x)", "x:3,4"),
    ("jax.vmap(lambda t: lax.all_gather(t, 'i') * t, axis_name='i')(x)", "x:3"), ("jax.vmap(lambda t: lax.all_to_all(t, 'i', 0, 0) * t, axis_name='i')(x)", "x:3,3"), ("jax.vmap(lambda t: lax.ppermute(t, 'i', [(0, 1), (1, 2), (2, 0)]) * t, axis_name='i')(x)", "x:3"),
    ("jax.vmap(lambda t: lax.pshuffle(t, 'i', [2, 0, 1]) * t, axis_name='i')(x)", "x:3"), ("jax.vmap(lambda t: lax.psum_scatter(t, 'i') * t[0], axis_name='i')(x)", "x:3,3"), ("jax.vmap(lambda t: lax.pswapaxes(t, 'i', 0) * t, axis_name='i')(x)", "x:3,3"), ("jax.vmap(lambda t: lax.pbroadcast(t, 'i', 1) * t, axis_name='i')(x)", "x:3"),
    ("lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos) * y", "x:3 y:"), ("abs(jnp.linalg.eig(x)[0])", "x:3,3"), ("abs(jnp.roots(x, strip_zeros=False))", "x:+4"), ("jnp.histogramdd(x, 2, range=((-1, 1), (-1, 1)), weights=y)[0]", "x:4,2 y:4"), ("jnp.fromfunction(lambda i, j: i * y + j * x, (2, 3))", "x: y:"),
    ("random.maxwell(K, (3,)) * x", "x:3"), ("random.cauchy(K, (3,)) * x", "x:3"), ("random.ball(K, 2, shape=(3,)) * x[:, None]", "x:3"), ("random.orthogonal(K, 3) @ x", "x:3"), ("random.categorical(K, x) * x", "x:3"),
    ("jnp.vectorize(jnp.dot, signature='(n),(n)->()')(x, y)", "x:3,4 y:4"), ("jnp.frompyfunc(lambda a, b: a * b, 2, 1, identity=1)(x, y)", "x:3 y:3"), ("jnp.piecewise(x, [x < y], [lambda v: v * y, 1.0])", "x:3 y:"), ("jnp.histogram2d(x, y, 2, weights=x)[0]", "x:5 y:5"), ("jnp.hypot(jnp.sum(x), y)", "x:3 y:"), ("jnp.maximum(x, jnp.max(y))", "x:3 y:4"),
    ("jnp.sqrt(jnp.sum((x - y) ** 2, -1))", "x:3,4 y:4"), ("jax.jit(lambda a, b: jnp.tanh(a) * b)(x, y)", "x:3 y:"), ("jax.vmap(lambda a, b: jnp.tanh(a) * b, (0, None))(x, y)", "x:3 y:"), ("jax.grad(lambda a: jnp.sum(a ** 3 * y))(x)", "x:3 y:"), ("jax.jacfwd(lambda a: a ** 3 * y)(x)", "x:3 y:"), ("jax.jvp(lambda a: a ** 3 * y, (x,), (x,))[1]", "x:3 y:"), ("jax.hessian(lambda a: jnp.sum(a ** 3) * y)(x)", "x:3 y:"),
    ("lax.reduce_window(x * y, 1.0, lax.mul, (2,), (1,), 'VALID')", "x:5 y:"), ("lax.broadcast_like(y, x) + x", "x:3,4 y:"), ("jnp.float_power(x, y)", "x:+3 y:3"), ("lax.random_gamma_grad(x, y)", "x:+3 y:+3"), ("lax.igamma_grad_a(x, y)", "x:+3 y:+3"), ("lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type='float32')", "x:3,4 y:4,2"), ("lax.ragged_dot_general(x, y, jnp.array([2, 1]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)))", "x:3,4 y:2,4,5"),
]  # fmt: skip


def cases() -> dict[str, str]:
    """Return every case: its expression, and the domains and shapes of its arguments."""
    found: list[tuple[str, str]] = []
    for domain, names in ELEMENTWISE.items():
        found += [(f"{name}(x)", f"x:{domain}3") for name in names.split()]
    for (first, second), names in PAIRS.items():
        for name in names.split():
            shapes = [("", ""), ("3", ""), ("", "2,3"), ("3", "2,3"), ("2,1", "1,3"), ("2,3", "2,3")]
            found += [(f"{name}(x, y)", f"x:{first}{a} y:{second}{b}") for a, b in shapes]
            found += [(f"{name}(x, x)", f"x:{second if first == '~' else first}3")]
            found += [
                (f"{name}(x, 2)", f"x:{first}3"),
                (f"{name}(1.5, y)", f"y:{second}3"),
                (f"{name}(2, y)", f"y:{second}"),
            ]
    for (first, second), names in EQUAL_PAIRS.items():
        for name in names.split():
            found += [(f"{name}(x, y)", f"x:{first}3 y:{second}3"), (f"{name}(x, y)", f"x:{first} y:{second}")]
            found += [(f"{name}(x, 2.0)", f"x:{first}3")]
    found += [(e, f"x:+{s}") for e in WITH_NUMBERS for s in ("", "3", "2,3")]
    found += [(e, "x:3,4") for e in REDUCTIONS + SHAPES]
    for expression in UPDATES:
        signed = "power" in expression or "divide" in expression
        if "(v)" in expression:
            found += [(expression.replace("(v)", "(y)"), f"x:{'+' if signed else ''}3,4 y:{'+' if signed else ''}4")]
        found += [(expression.replace("(v)", "(y)"), f"x:{'+' if signed else ''}3,4 y:{'+' if signed else ''}")]
        found += [(expression.replace("(v)", "(2)").replace("(y)", "(2)"), f"x:{'+' if signed else ''}3,4")]
        found += [
            (
                expression.replace("(v)", "(x[0, 1] * 2)").replace("(y)", "(x[0, 1] * 2)"),
                f"x:{'+' if signed else ''}3,4",
            )
        ]
    found += TWO
    return {f"{expression} [{arguments}]": arguments for expression, arguments in found}
