"""One HTML page that needs nothing else: no network, no fonts, no library.

All foreign text goes through `element.text`, which escapes it; a content security policy lets the page's own style and
script run, by their hashes, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report


def write(report: Report, stream: TextIO) -> None:
    """Write the page."""
    from cudagraph_doctor.reporters.html import page

    page.write(report, stream)
