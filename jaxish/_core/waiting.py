"""How the threads that share an operator wait for each other: asleep, after a moment.

At the end of a loop that several threads share, libgomp's (GCC's OpenMP, torch's on Linux) try again for some 4 ms before
they sleep. That is the fastest where each has a processor. Where other programs want these, the one that is waited for
cannot run meanwhile: a scan of 50 small steps took 800 ms beside busy processes, 8 to 60 with threads that soon sleep.
"""

import os
import sys

_TRIES = "3000"  # for some 0.1 ms, in which the next operator most often comes
_USERS_OWN = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def load_torch() -> None:
    """Import torch, with which libgomp reads how its threads are to wait, unless the user has said so in the environment."""
    is_told = "torch" in sys.modules or any(name in os.environ for name in _USERS_OWN)
    if not is_told:
        os.environ["GOMP_SPINCOUNT"] = _TRIES
    try:
        import torch  # noqa: F401
    finally:
        if not is_told:
            del os.environ["GOMP_SPINCOUNT"]


load_torch()
