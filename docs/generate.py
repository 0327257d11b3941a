"""Writes the pages that are generated from the source, or checks that they are up to date.

`python docs/generate.py` writes them; with `--check` it names the pages that differ and exits with 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from exit_code_page import exit_code_page
from rule_pages import rule_pages
from simulated_page import simulated_page
from trace_page import trace_page

DOCS = Path(__file__).parent


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/."""
    return {
        "trace-format.md": trace_page(),
        "exit-codes.md": exit_code_page(),
        "simulated-device.md": simulated_page(),
        **{f"rules/{name}": text for name, text in rule_pages().items()},
    }


def main(arguments: list[str]) -> int:
    """Write or check; return the exit status."""
    wanted = pages()
    left_over = [path for path in sorted((DOCS / "rules").glob("*.md")) if f"rules/{path.name}" not in wanted]
    differ = [name for name, text in wanted.items() if not _holds(DOCS / name, text)]
    if "--check" in arguments:
        for name in [*differ, *(f"rules/{path.name}" for path in left_over)]:
            print(f"docs/{name} is out of date: python docs/generate.py", file=sys.stderr)
        return 1 if differ or left_over else 0
    for name in differ:
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[name], encoding="utf-8")
        print(f"wrote docs/{name}")
    for path in left_over:
        path.unlink()
        print(f"removed docs/rules/{path.name}")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
