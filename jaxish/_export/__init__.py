"""jax.export: functions as data, that other processes call without their Python, and sizes that are symbols."""
