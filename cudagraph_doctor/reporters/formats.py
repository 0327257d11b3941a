"""The formats there are."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TextIO, assert_never

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report


class Format(enum.Enum):
    """A report format, by the name it has on the command line."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    GITLAB = "gitlab"
    MARKDOWN = "markdown"
    HTML = "html"

    @property
    def shows_timelines(self) -> bool:
        """Whether it has room for the timeline of every capture when nobody asked for it."""
        return self in (Format.JSON, Format.HTML)


def write(report: Report, form: Format, stream: TextIO) -> None:
    """Write a report to an open text stream."""
    # Each is imported when it is written: start-up pays for one.
    match form:
        case Format.TABLE:
            from cudagraph_doctor.reporters import table

            table.write(report, stream)
        case Format.JSON:
            from cudagraph_doctor.reporters import json_v1

            json_v1.write(report, stream)
        case Format.SARIF:
            from cudagraph_doctor.reporters import sarif

            sarif.write(report, stream)
        case Format.JUNIT:
            from cudagraph_doctor.reporters import junit

            junit.write(report, stream)
        case Format.GITHUB:
            from cudagraph_doctor.reporters import github

            github.write(report, stream)
        case Format.GITLAB:
            from cudagraph_doctor.reporters import gitlab

            gitlab.write(report, stream)
        case Format.MARKDOWN:
            from cudagraph_doctor.reporters import markdown

            markdown.write(report, stream)
        case Format.HTML:
            from cudagraph_doctor.reporters import html

            html.write(report, stream)
        case _:
            assert_never(form)
