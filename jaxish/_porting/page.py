"""`python -m jaxish._porting.page`: write docs/differences.md from the table of differences."""

import sys
import textwrap
from pathlib import Path
from typing import Any

from .differences import table

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


def text() -> str:
    """Return the page."""
    found = table()
    rows = "\n".join(f"| {row['what']} | {row['instead']} |" for row in found["unsupported"])
    return f"""# {found["title"]}

{found["introduction"]}

## Not yet, or not at all

| what | instead |
|---|---|
{rows}

## Behaviour

{_list(found["behaviour"])}

## Values

{_list(found["values"])}
"""


def _list(entries: list[dict[str, Any]]) -> str:
    return "\n".join(f"* {textwrap.indent(entry['text'], '  ')[2:]}" for entry in entries)


def main() -> int:
    """Write the page; return the exit status."""
    if not PAGE.exists():
        print(f"no {PAGE}: the page is part of jaxish's repository, not of what is installed", file=sys.stderr)
        return 2
    PAGE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
