"""Programs of several processes: one process per device, started with torchrun's variables."""

import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def in_processes(program: str, count: int, folder: Path) -> list[Any]:
    """Return what each of `count` processes of a program in this folder pickles into the file that it is given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "JAX_NUM_CPU_DEVICES": -1}
    command = [sys.executable, Path(__file__).with_name(program)]
    started = [
        subprocess.Popen(
            [*command, folder / str(rank)], stderr=subprocess.PIPE, text=True,
            env=os.environ | {k: str(v) for k, v in {**variables, "RANK": rank, "WORLD_SIZE": count}.items()},
        )
        for rank in range(count)
    ]  # fmt: skip
    errors = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0] * count, "\n".join(errors)
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(count)]
