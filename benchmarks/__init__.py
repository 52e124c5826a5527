"""Times jaxish against JAX, side by side in one process: `python -m benchmarks [group ...] [--json FILE]`."""
