"""Logistic regression by jaxopt's LBFGS, differentiated by its regularization through the optimum."""

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np

generator = np.random.RandomState(0)
features = jnp.asarray(generator.randn(50, 3), jnp.float32)
labels = jnp.asarray(features @ jnp.array([1.0, -1.0, 0.5]) > 0, jnp.float32)


def loss(w, l2):
    logits = features @ w
    return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits) + 0.5 * l2 * jnp.sum(w**2)


solver = jaxopt.LBFGS(fun=loss, maxiter=50, tol=1e-5)
fit = lambda l2: solver.run(jnp.zeros(3), l2=l2).params
print(*fit(0.1))
print(*jax.jacobian(fit)(0.1))
