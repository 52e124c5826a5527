"""Notebooks are run from top to bottom, and what their cells print is compared with what is committed.

`python tests/notebook_outputs.py [notebook...]` runs them and writes their outputs anew; `test_notebooks.py` compares.
Compared are words and numbers of printed text and of values. Pictures are not, nor standard error (progress bars), nor the
version of jaxish and numbers with a unit of time. Tags of a cell say what else may differ: `varies`, everything; `about`, numbers by a tenth, as where
a long computation makes much of the last bits.
"""

import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 120  # that a cell may take, on a machine that is busy
TOLERANCE, TOLERANCE_ABOUT = 2e-3, 0.1

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![A-Za-z_])")
_VERSION = re.compile(r"jaxish \d+(?:\.\d+)+")
_TIME = re.compile(r"(?<![\w.])\d+\.?\d*\s?(?:ns|µs|us|ms|s|seconds|min)\b")


class Difference(NamedTuple):
    """What a cell prints that it did not print when the notebook was committed."""

    cell: str
    committed: str
    found: str

    def __str__(self) -> str:
        return f"cell {self.cell} printed {self.found!r}, and {self.committed!r} is committed"


def executed(path: Path) -> Any:
    """Return the notebook after a run in a kernel of its own, from its folder, with jaxish as it is by default."""
    notebook: Any = nbformat.read(path, as_version=4)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "JAXISH_JIT", "XLA_"))}
    with tempfile.TemporaryDirectory() as settings:  # none of the user's
        variables = {"PYTHONPATH": str(ROOT), "IPYTHONDIR": settings, "JUPYTER_CONFIG_DIR": settings}
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", coalesce_streams=True, record_timing=False,
            resources={"metadata": {"path": str(path.parent)}}, config=_talking_in(settings),
        )  # fmt: skip
        client.execute(env={**kept, **variables})
    return notebook


def _talking_in(folder: str) -> Config:
    """Return settings by which a kernel is talked to by sockets in a folder: no port that others on the machine could reach."""
    return Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})


def normalised(notebook: Any) -> Any:
    """Return the notebook without what a run leaves in its metadata."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
    return notebook


def differences(committed: Any, found: Any) -> list[Difference]:
    """Return where what the cells of a notebook print differs."""
    return [
        difference
        for before, after in zip(committed.cells, found.cells, strict=True)
        if before.cell_type == "code" and "varies" not in before.metadata.get("tags", ())
        for difference in _of_cell(before, after)
    ]


def _of_cell(before: Any, after: Any) -> list[Difference]:
    tolerance = TOLERANCE_ABOUT if "about" in before.metadata.get("tags", ()) else TOLERANCE
    pairs = zip(_printed(before), _printed(after), strict=False)
    found = [Difference(before.id, x, y) for old, new in pairs for x, y in _unlike(old, new, tolerance)]
    if len(_printed(before)) != len(_printed(after)):
        found.append(Difference(before.id, f"{len(_printed(before))} outputs", f"{len(_printed(after))} outputs"))
    return found


def _printed(cell: Any) -> list[str]:
    """Return the texts of a cell's outputs."""
    streams = [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout"]
    return streams + [o.data["text/plain"] for o in cell.outputs if "text/plain" in o.get("data", {})]


def _unlike(before: str, after: str, tolerance: float) -> list[tuple[str, str]]:
    """Return pairs of numbers that are not close, or the texts if their words differ."""
    before, after = (_VERSION.sub("jaxish", _TIME.sub("(time)", text)) for text in (before, after))
    if _words(before) != _words(after):
        return [(before, after)]
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    return [(x, y) for x, y in pairs if not _are_close(x, y, tolerance)]


def _words(text: str) -> str:
    """Return the text without its numbers and spaces, which depend on how long the numbers are."""
    return re.sub(r"\s+", "", _NUMBER.sub("#", text))


def _are_close(before: str, after: str, tolerance: float) -> bool:
    """Tell whether two printed numbers agree, to the tolerance and one unit of the last digit printed."""
    if tolerance == TOLERANCE and not re.search(r"[.e]", before + after):
        return int(before) == int(after)
    return math.isclose(float(before), float(after), rel_tol=tolerance, abs_tol=max(map(_last_digit, (before, after))))


def _last_digit(number: str) -> float:
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 1.0001 * 10.0 ** (int(exponent or 0) - decimals) if decimals else 0.0


def main(names: list[str]) -> None:
    """Run notebooks, by default all, and write their outputs."""
    for path in [Path(name) for name in names] or NOTEBOOKS:
        print(path.name, flush=True)
        nbformat.write(normalised(executed(path)), path)


if __name__ == "__main__":
    main(sys.argv[1:])
