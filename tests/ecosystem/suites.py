"""Run a library's own tests under JAX and under jaxish, and print what differs.

    python tests/ecosystem/suites.py optax                       the tests that its wheel holds
    python tests/ecosystem/suites.py flax --tests FLAX/tests     those of a source distribution or a checkout
    python tests/ecosystem/suites.py optax -k adam --files '*alias*'

Each file of tests runs in a process of its own. What passes on JAX counts. Exits with 1 where less than 95% of that
passes on jaxish.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

JAX, JAXISH = ["-m", "pytest"], ["-m", "jaxish", "run", "-m", "pytest"]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:warnings", "--tb=short", "--rootdir"]
# What a library's files of tests are called.
PATTERNS = ("*_test.py", "test_*.py")
Results = dict[str, tuple[str, str, float]]  # by test: passed, skipped or failed, why, and in how many seconds
# Files that take this many times JAX's seconds, and this many more, are told.
SLOW, SECONDS = 2, 5


def main() -> int:
    """Run the suites; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="the library's name, as it is imported")
    parser.add_argument("--tests", type=Path, help="where its tests are, if not beside its modules")
    parser.add_argument("--files", default="*", help="only files of tests of this name, a pattern")
    parser.add_argument("-k", default="", help="only tests that match, as for pytest")
    parser.add_argument("--jobs", type=int, default=2, help="how many files at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a file may take")
    parser.add_argument(
        "--jax-results", type=Path, help="keep what JAX gives in this file, and do not ask for what is there"
    )
    options = parser.parse_args()
    root = (options.tests or _beside_modules(options.library)).resolve()
    files = [f for p in PATTERNS for f in sorted(root.rglob(p)) if fnmatch.fnmatch(f.name, options.files)]
    with ThreadPoolExecutor(options.jobs) as pool:

        def run(interpreter: Sequence[str], kept: Path | None) -> Results:
            known = json.loads(kept.read_text()) if kept and kept.exists() else {}
            asked = [f for f in files if f"{f.relative_to(root)}" not in known]
            found = pool.map(lambda f: _run(interpreter, f, root, options.k, options.timeout), asked)
            for file, results in zip(asked, found, strict=True):
                known[f"{file.relative_to(root)}"] = results
                _tell(file.name, results)
                if kept:
                    kept.write_text(json.dumps(known))
            return {name: result for f in files for name, result in known[f"{f.relative_to(root)}"].items()}

        on_jax, on_jaxish = run(JAX, options.jax_results), run(JAXISH, None)
    return report(on_jax, on_jaxish)


def _beside_modules(library: str) -> Path:
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{library} is not installed")
    return Path(spec.submodule_search_locations[0])


def _run(interpreter: Sequence[str], file: Path, root: Path, expression: str, timeout: float) -> Results:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # Tests that import a helper beside them find it from the folder above their package.
        path = [str(root.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        command = [sys.executable, *interpreter, str(file), *OPTIONS, str(root), f"--junitxml={report}"]
        try:
            done = subprocess.run(
                [*command, *(["-k", expression] if expression else [])],
                cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu"},
                capture_output=True, text=True, timeout=timeout,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {f"{file.relative_to(root)}": ("failed", f"took more than {timeout} s", timeout)}
        if not report.exists():
            return {
                f"{file.relative_to(root)}": ("failed", (done.stderr or done.stdout).strip().rpartition("\n")[2], 0)
            }
        return {f"{file.relative_to(root)}::{name}": result for name, result in _read(report)}


def _tell(file: str, results: Results) -> None:
    """Print to standard error what came of a file, so that it is known where the rest is not waited for."""
    counts = Counter(outcome for outcome, *_ in results.values())
    print(f"{file}:", ", ".join(f"{n} {outcome}" for outcome, n in counts.items()), file=sys.stderr, flush=True)


def _read(report: Path) -> list[tuple[str, tuple[str, str, float]]]:
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        wrong = next((c for c in case if c.tag in ("failure", "error")), None)
        skipped = any(c.tag == "skipped" for c in case)
        why = "" if wrong is None else (wrong.get("message") or "").strip()
        outcome = "failed" if wrong is not None else "skipped" if skipped else "passed"
        found.append((name, (outcome, why, float(case.get("time") or 0))))
    return found


def report(on_jax: Results, on_jaxish: Results) -> int:
    """Print what differs and the counts; return the exit status."""
    counts = [name for name, (outcome, *_) in on_jax.items() if outcome == "passed"]
    missing = ("missing", "its file did not load", 0)
    lacking = [name for name in counts if on_jaxish.get(name, missing)[0] != "passed"]
    for name in lacking:
        outcome, why, _ = on_jaxish.get(name, missing)
        print(f"{outcome}: {name}\n    {' '.join(why.split())[:300]}")
    for name, (outcome, why, _) in on_jaxish.items():
        if "::" not in name and outcome == "failed":
            print(f"{name}: {why}")
    passed = len(counts) - len(lacking)
    _report_times([name for name in counts if name in on_jaxish], on_jax, on_jaxish)
    print(f"{passed} of the {len(counts)} tests that pass on JAX pass on jaxish")
    return 0 if passed >= 0.95 * len(counts) else 1


def _report_times(names: Sequence[str], on_jax: Results, on_jaxish: Results) -> None:
    """Print how long these tests took on both, and of which files' jaxish took much longer."""
    sums: dict[str, list[float]] = {}
    for name in names:
        file = sums.setdefault(name.partition("::")[0], [0, 0])
        file[0] += on_jax[name][2]
        file[1] += on_jaxish[name][2]
    for file, (theirs, ours) in sums.items():
        if ours > SLOW * theirs and ours > theirs + SECONDS:
            print(f"{file}: {theirs:.1f} s on JAX, {ours:.1f} s on jaxish")
    theirs, ours = (sum(column) for column in zip(*sums.values(), strict=True)) if sums else (0, 0)
    print(f"{theirs:.0f} s on JAX, {ours:.0f} s on jaxish")


if __name__ == "__main__":
    sys.exit(main())
