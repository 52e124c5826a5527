"""`python -m jaxish run program.py`: run a JAX program, unchanged, on PyTorch.

`check` tells beforehand what of JAX a code base uses that jaxish lacks, `info` prints what it would run on.
"""

import argparse
import os
import runpy
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jaxish", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a program that says `import jax` on jaxish")
    run.add_argument("-m", dest="module", action="store_true", help="program is a module's name, as for python -m")
    run.add_argument("program", help="a Python file, or with -m a module")
    run.add_argument("args", nargs=argparse.REMAINDER, help="the program's own arguments")
    checked = commands.add_parser("check", help="tell which names of jax a code base uses, and whether jaxish has them")
    checked.add_argument(
        "paths", nargs="+", metavar="path", help="a file, a folder or a notebook; it is read and not run"
    )
    checked.add_argument("--json", action="store_true", help="print what was found for other programs to read")
    commands.add_parser("info", help="print versions, devices, compiler, cache and backends")
    kept = commands.add_parser("cache", help="look at what was compiled and is kept on disk")
    wanted = kept.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--info", action="store_true", help="print where it is, and how much")
    wanted.add_argument("--clear", action="store_true", help="throw it all away; programs that run are not disturbed")
    options = parser.parse_args(argv)
    if options.command == "info":
        return info()
    if options.command == "cache":
        return look_at_cache(options.clear)
    if options.command == "check":
        return check(options.paths, options.json)
    return run_program(options.program, options.args, options.module)


def run_program(program: str, args: Sequence[str], module: bool) -> int:
    """Run a file or module as `__main__`, with `import jax` served by jaxish."""
    from . import _dropin as dropin

    dropin.install()
    sys.argv = [program, *args]
    if module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return 0
    if not os.path.isfile(program):
        print(f"python -m jaxish run: no file {program!r}; for a module, use -m", file=sys.stderr)
        return 2
    path = os.path.abspath(program)
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
    return 0


def check(paths: Sequence[str], as_json: bool) -> int:
    """Print what the code below the paths uses of JAX and jaxish lacks; 0 if it lacks nothing, 1 if something, 2 if unread."""
    from ._porting import report, verdict

    for path in paths:
        if not os.path.exists(path):
            print(f"python -m jaxish check: no file or folder {path!r}", file=sys.stderr)
            return 2
    found = verdict.check(paths)
    if not found.files:
        print(f"python -m jaxish check: no Python files in {', '.join(paths)}", file=sys.stderr)
        return 2
    print(report.as_json(found) if as_json else report.as_text(found))
    return found.exit_code


def info() -> int:
    """Print what jaxish runs on, one fact a line."""
    import platform

    import numpy
    import torch

    from ._compile import registry
    from ._core import cache, machine
    from ._devices.devices import devices
    from .version import __version__

    try:
        kept_in = str(cache.folder())
    except cache.Unusable as error:
        kept_in = f"none, graphs run uncompiled: {error}"
    backends = [name for name in registry.names() if "TESTING" not in name]
    facts = {
        "jaxish": f"{__version__} (behaves as JAX {machine.JAX_VERSION})",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "devices": ", ".join(f"{d!r} {d.device_kind}" for d in devices()),
        "C++ compiler": machine.compiler() or "none found: graphs run uncompiled",
        "kernel cache": kept_in,
        "backends": ", ".join(backends),
    }
    for name, value in facts.items():
        print(f"{name + ':':14}{value}")
    return 0


def look_at_cache(clear: bool) -> int:
    """Print what the cache on disk holds, or throw it away and print what it was."""
    from ._core import cache

    try:
        found = cache.clear() if clear else cache.info()
    except cache.Unusable as error:
        print(f"python -m jaxish cache: {error}", file=sys.stderr)
        return 1
    print(f"{found.path}: {found.entries} entries, {found.bytes:,} bytes{', thrown away' if clear else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
