"""Convolutions and their shape functions."""

import random
from typing import Any

import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

CONVOLUTIONS = [
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'VALID').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(2,1),'SAME_LOWER').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'FOO').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),[(1,1),(1,1)]).shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,),'SAME').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((1, 2, 5, 5))[0],(1,1),'SAME').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3,4,3,3)),(1,1),'SAME').shape",
    "lax.conv(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)).astype(int),(1,1),'SAME').shape",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',dimension_numbers=('NHWC','HWIO','NHWC'))",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',dimension_numbers=('NHW','HWIO','NHWC'))",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',dimension_numbers=('NCHH','HWIO','NHWC'))",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',dimension_numbers=('NCHW','OIHW'))",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',dimension_numbers=3)",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',feature_group_count=2)",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',feature_group_count=0)",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',batch_group_count=2)",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',lhs_dilation=(0,1))",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',lhs_dilation=(1,))",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'SAME',rhs_dilation=(2,2)).shape",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'VALID',rhs_dilation=(3,3)).shape",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),[(0,0)])",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),[(0,0),(-9,0)]).shape",
    "lax.conv_general_dilated(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),'same').shape",
    "lax.conv_dimension_numbers((1,2,3,4),(1,2,3,4),('NHWC','HWIO','NHWC'))",
    "lax.conv_dimension_numbers((1,2,3,4),(1,2,3,4),None)",
    "lax.conv_dimension_numbers((1,2,3,4),(1,2,3),None)",
    "lax.conv_dimension_numbers((1,2,3,4),(1,2,3,4),('NWHC','HWIO','NHWC'))",
    "lax.padtype_to_pads((5,5),(3,3),(2,2),'SAME')",
    "lax.padtype_to_pads((5,5),(3,2),(2,1),'SAME_LOWER')",
    "lax.padtype_to_pads((5,5),(3,2),(2,1),'VALID')",
    "lax.padtype_to_pads((5,5),(3,2),(2,1),'FOO')",
    "lax.conv_transpose(jnp.ones((1, 2, 5, 5)),jnp.ones((3,2,3,3)),(2,2),'SAME',dimension_numbers=('NCHW','OIHW','NCHW')).shape",
    "lax.conv_transpose(jnp.ones((1, 2, 5, 5)),jnp.ones((3,2,3,3)),(2,2),'VALID',dimension_numbers=('NCHW','OIHW','NCHW')).shape",
    "lax.conv_transpose(jnp.ones((1,5,5,2)),jnp.ones((3,3,2,3)),(2,2),'SAME').shape",
    "lax.conv_transpose(jnp.ones((1,5,5,2)),jnp.ones((3,3,3,2)),(2,2),'SAME',transpose_kernel=True).shape",
    "lax.conv_transpose(jnp.ones((1,5,5,2)),jnp.ones((3,3,2,3)),(2,2),[(1,1),(0,2)]).shape",
    "lax.conv_transpose(jnp.ones((1,5,5,2)),jnp.ones((3,3,2,3)),(2,2),[(1,1),(0,2)],use_consistent_padding=True).shape",
    "lax.conv_transpose(jnp.ones((1,5,5,2)),jnp.ones((3,3,2,3)),(2,2),'SAME',rhs_dilation=(2,1)).shape",
    "lax.conv_transpose(jnp.ones((1,5)),jnp.ones((3,3)),(),'SAME').shape",
    "tuple(map(int, lax.conv_shape_tuple((1,2,5,5),(3,2,3,3),(1,1),((0,0),(0,0)))))",
    "lax.conv_shape_tuple((1,2,5,5),(3,2,3,3),(1,1),((0,0),))",
    "tuple(map(int, lax.conv_general_shape_tuple((1,5,5,2),(3,3,2,4),(1,2),'SAME',('NHWC','HWIO','NHWC'))))",
    "tuple(map(int, lax.conv_transpose_shape_tuple((1,5,5,2),(3,3,2,4),(1,2),'SAME',('NHWC','HWIO','NHWC'))))",
    "lax.conv_general_permutations(('NHWC','HWIO','NHWC'))",
    "lax.conv_general_dilated_patches(jnp.ones((1, 2, 5, 5)),(2,2),(1,1),'VALID').shape",
    "lax.conv_general_dilated_patches(jnp.ones((1,5,5,2)),(2,2),(1,1),'SAME',dimension_numbers=('NHWC','HWIO','NHWC')).shape",
    "lax.conv_general_dilated_local(jnp.ones((1, 2, 5, 5)),jnp.ones((3,8,4,4)),(1,1),'VALID',(2,2)).shape",
    "lax.conv_with_general_padding(jnp.ones((1, 2, 5, 5)),jnp.ones((3, 2, 3, 3)),(1,1),[(1,2),(0,0)],(1,1),(1,1)).shape",
]


@pytest.mark.parametrize("expression", CONVOLUTIONS)
def test_convolutions_agree(expression: str) -> None:
    agree_on(expression)


def draw(seed: int) -> tuple[Any, ...]:
    """Return operands and all arguments of a convolution that fit each other."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    rank = choose.choice([0, 1, 2, 2, 2, 3])
    feature_groups = choose.choice([1, 1, 2])
    batch_groups = 1 if feature_groups > 1 else choose.choice([1, 1, 2])
    space = "DHW"[:rank]
    inner, out = choose.choice([1, 2]), choose.choice([1, 2]) * feature_groups * batch_groups
    lhs = {"N": choose.choice([1, 2]) * batch_groups, "C": inner * feature_groups} | {
        c: choose.randint(1, 6) for c in space
    }
    rhs = {"O": out, "I": inner} | {c: choose.randint(1, 3) for c in space}
    strides = [choose.choice([1, 1, 2, 3]) if choose.random() < 0.6 else 1 for _ in space]
    lhs_dilation = [choose.choice([1, 2, 3]) for _ in space] if choose.random() < 0.5 else [1] * rank
    rhs_dilation = [choose.choice([1, 1, 2]) for _ in space]
    padding = [(choose.randint(-1, 3), choose.randint(-1, 3)) for _ in space]
    if choose.random() < 0.4 and lhs_dilation == [1] * rank:
        padding = choose.choice(["SAME", "VALID", "SAME_LOWER"])
    layouts = tuple("".join(choose.sample(s + space, rank + 2)) for s in ("NC", "OI", "NC"))
    x = numbers.integers(0, 5, [lhs[c] for c in layouts[0]])
    w = numbers.integers(0, 5, [rhs[c] for c in layouts[1]])
    return x, w, (strides, padding, lhs_dilation, rhs_dilation, layouts, feature_groups, batch_groups)


@pytest.mark.parametrize("seed", range(40))
def test_any_layout_padding_dilation_and_grouping(seed: int) -> None:
    x, w, arguments = draw(seed)
    dtype = ("float32", "int32", "complex64", "bfloat16", "uint8")[seed % 5]

    def program(jax: Any) -> Any:
        lhs, rhs = (jax.numpy.asarray(t.astype("float32")).astype(dtype) for t in (x, w))
        return jax.lax.conv_general_dilated(lhs, rhs, *arguments)

    agree(program)


@pytest.mark.parametrize("seed", range(100, 115))
def test_derivatives_and_batches(seed: int) -> None:
    x, w, arguments = draw(seed)

    def program(jax: Any, lhs: Any, rhs: Any) -> Any:
        lhs, rhs = jax.numpy.asarray(lhs), jax.numpy.asarray(rhs)

        def total(lhs: Any, rhs: Any) -> Any:
            return (jax.lax.conv_general_dilated(lhs, rhs, *arguments) ** 2).sum()

        slopes = jax.grad(total, (0, 1))
        pair = jax.numpy.stack([lhs, lhs + 1]), jax.numpy.stack([rhs, rhs + 1])
        return (
            slopes(lhs, rhs),
            jax.vmap(total)(*pair),
            jax.vmap(slopes, (0, None))(pair[0], rhs),
            jax.jit(slopes)(lhs, rhs),
        )

    agree(program, x.astype("float32"), w.astype("float32"), rtol=1e-4, at_once=True)


@pytest.mark.parametrize("given", ["int8", "uint8", "int32", "float16", "float32", "complex64", "bool"])
@pytest.mark.parametrize("wanted", ["int8", "uint32", "int32", "bfloat16", "float32", "complex64", "bool"])
def test_element_types_that_can_be_preferred(given: str, wanted: str) -> None:
    x, w = np.ones((1, 2, 3), given), np.ones((2, 2, 2), given)
    agree(lambda jax: jax.lax.conv_general_dilated(x, w, (1,), "VALID", preferred_element_type=wanted))


@pytest.mark.parametrize("options", [{"lhs_dilation": (0,)}, {"rhs_dilation": (0,)}])
def test_steps_that_are_not_positive(options: dict[str, Any]) -> None:
    x, w = np.ones((1, 2, 3), "float32"), np.ones((2, 2, 2), "float32")
    options = {"window_strides": (1,), "padding": "VALID", **options}
    agree(lambda jax: jax.lax.conv_general_dilated(x, w, **options))
