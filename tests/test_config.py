"""Configuration: flags, their context managers, and the debugging they switch on."""

import jax as real_jax
import numpy as np
import pytest

import jaxish as jax
import jaxish.numpy as jnp


def test_a_flag_is_set_globally_and_for_a_block():
    assert jax.config.jax_enable_x64 is False
    with jax.enable_x64(True):
        assert jax.config.jax_enable_x64 is True
        with jax.enable_x64(False):
            assert jnp.arange(3).dtype == np.int32
        assert jnp.arange(3).dtype == np.int64
    assert jnp.arange(3).dtype == np.int32


def test_unknown_names_and_bad_values_are_refused():
    with pytest.raises(AttributeError, match="jax_no_such_flag"):
        jax.config.update("jax_no_such_flag", 1)
    with pytest.raises(ValueError, match="must be one of"):
        jax.config.update("jax_numpy_rank_promotion", "sometimes")
    with pytest.raises(AttributeError, match="update"):
        jax.config.jax_enable_x64 = True


@pytest.mark.parametrize("make", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_debug_nans_names_the_operator(make):
    f = make(lambda x: jnp.log(x) * 2)
    assert np.isnan(f(-1.0))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"^invalid value \(nan\) encountered in log\b"):
        f(-1.0)
    assert np.isnan(f(-1.0))


def test_debug_infs_names_the_operator():
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match=r"^invalid value \(inf\) encountered in exp\b"):
        jnp.exp(1000.0)


def test_rank_promotion_can_be_refused():
    with jax.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank"):
        jnp.ones((2, 2)) + jnp.ones(2)


def test_rank_promotion_can_be_warned_of():
    as_jax_says = r"Following NumPy automatic rank promotion for add on shapes \(2,\) \(1, 2\)"
    with jax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match=as_jax_says):
        jnp.ones(2) + jnp.ones((1, 2))


def test_strict_dtype_promotion_refuses_mixed_dtypes():
    with jax.numpy_dtype_promotion("strict"), pytest.raises(jax.dtypes.TypePromotionError, match="standard"):
        jnp.ones(2, np.float32) + jnp.ones(2, np.int32)


@pytest.mark.parametrize("j", [real_jax, jax], ids=["jax", "jaxish"])
def test_traces_are_logged_with_the_types_that_they_are_for(j, caplog):
    def scaled(x, y):
        return x * y

    with j.log_compiles(True):
        j.jit(scaled)(np.ones(3, np.float32), 2)
    assert "Finished tracing scaled for jit" in caplog.text
    types = "(ShapedArray(float32[3]), ShapedArray(int32[], weak_type=True))"
    assert f"Compiling jit(scaled) with global shapes and types {types}." in caplog.text
