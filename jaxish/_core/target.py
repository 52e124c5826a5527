"""Targets: for whom a finished graph is lowered, and what they can run besides torch's operators.

`Primitive.lower` is given one. A backend says which target it compiles for (`_compile/registry.py`).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """What the graphs of a backend may hold; all of them run operators of aten."""

    name: str
    calls_host: bool = False  # one opaque operator that runs a primitive in this process: `jaxish::structured`
    has_instructions: bool = False  # primitives that are instructions (`Primitive.is_instruction`), as they are
    has_primitives: bool = False  # primitives that are opaque, or elementwise, as they are
    has_scans: bool = False  # scans as they are, their bodies lowered
    contracts: bool = False  # a * b + c comes out rounded once, and so do square roots: as XLA's own code has them


INDUCTOR = Target("inductor", calls_host=True, contracts=True)
HOSTED = Target("torch.compile", calls_host=True)
LOOP = Target("a loop in C++", has_instructions=True)
PIECES = Target("pieces in C++", has_instructions=True, has_primitives=True)
PORTABLE = Target("portable")
STORED = Target("an exported function", has_scans=True)
