"""Sphinx's settings: `make docs` builds the site from docs/ and notebooks/; a warning is an error."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from jaxish.version import __version__  # noqa: E402


def _copied(notebook):
    """Write a notebook below docs/, where Sphinx reads, with links to pages in place of links to files."""
    text = notebook.read_text().replace("](../docs/", "](../")
    (HERE / "notebooks" / notebook.name).write_text(re.sub(r"\[([\w/.]+)\]\(\.\./examples/[^)]+\)", r"`\1`", text))


(HERE / "notebooks").mkdir(exist_ok=True)
for _notebook in (HERE.parent / "notebooks").glob("*.ipynb"):
    _copied(_notebook)

project = "jaxish"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.doctest"]
exclude_patterns = ["_build"]
nb_execution_mode = "off"  # they are committed with their outputs, which the tests check
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = f"jaxish {version}"
autodoc_typehints = "none"  # signatures are long enough
suppress_warnings = [
    "mystnb.unknown_mime_type",
    "misc.highlighting_failure",  # jaxprs, and cells that begin with `!`
]


def setup(app):
    """Read docstrings as what they are: Markdown's code in backticks."""
    app.connect("autodoc-process-docstring", _with_code_marked)


def _with_code_marked(app, what, name, obj, options, lines):
    lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``\\ ", line) for line in lines]
