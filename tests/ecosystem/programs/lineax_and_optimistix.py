"""Linear solves by lineax, and by optimistix a root and a least-squares fit, with derivatives through them."""

import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx

matrix, vector = jnp.array([[3.0, 1.0], [1.0, 2.0]]), jnp.array([1.0, 2.0])
solved = lambda b: lx.linear_solve(lx.MatrixLinearOperator(matrix), b).value
print(*solved(vector), *jax.jit(jax.grad(lambda b: solved(b).sum()))(vector))
positive = lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag)
print(*jax.jit(lambda b: lx.linear_solve(positive, b, lx.CG(1e-6, 1e-6)).value)(vector))
root = lambda a: optx.root_find(lambda y, a: y**2 - a, optx.Newton(1e-6, 1e-6), jnp.ones(()), a).value
print(root(jnp.array(2.0)), jax.grad(root)(jnp.array(2.0)))
residuals = lambda y, a: y * jnp.array([1.0, 2.0]) - a
print(optx.least_squares(residuals, optx.LevenbergMarquardt(1e-6, 1e-6), jnp.ones(()), jnp.array([2.0, 4.1])).value)
