"""The options that `run`, `check` and `baseline write` share: what to look at, what to fail on, where to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("table", "json", "sarif", "junit", "github", "gitlab", "markdown", "html")
"""The names of `reporters.formats.Format`; a test holds the two together."""

_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Format of the report.",
    ),
    click.option("--timeline", is_flag=True, help="Show when each capture's status changed, and across which call."),
    click.option("--output", metavar="FILE", type=click.Path(), help="Write the report to FILE, not to the terminal."),
    click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FORMAT=FILE",
        help="Write another report, in FORMAT, to FILE; may be given several times.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note", "never"]),
        show_default="error",
        help="Lowest level of a finding that makes the exit status 1.",
    ),
    click.option("--strict", is_flag=True, help="Findings that are only possible count too."),
    click.option("--baseline", metavar="FILE", type=click.Path(), help="Fail only on what FILE does not know."),
    click.option(
        "--fail-on-change",
        multiple=True,
        metavar="CONDITIONS",
        help="Fail where graphs changed more: nodes>5%,pool>10%,escapes>0,skips>0,captures<N.",
    ),
    click.option("--select", multiple=True, metavar="CODES", help="Only these rules or checkers; commas between."),
    click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules or checkers; commas between."),
    click.option("--allow-no-capture", is_flag=True, help="A run without any capture is not an error."),
    click.option(
        "--require-evidence", is_flag=True, help="Exit status 3 where evidence is weaker than --evidence asks for."
    ),
    click.option(
        "--require-checked", multiple=True, metavar="CODES", help="Exit status 4 where one of these was not checked."
    ),
    click.option("--own", multiple=True, metavar="PACKAGE|PATH", help="Count this package or folder as your own code."),
    click.option(
        "--config", metavar="FILE", type=click.Path(), help="Configuration, instead of the one found upwards."
    ),
    click.option("--no-config", is_flag=True, help="Read no configuration."),
)


def report_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the command takes the shared options, as keyword arguments of `ReportOptions`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class ReportOptions:
    """The shared options, as click delivers them."""

    form: str
    timeline: bool
    output: str | None
    reports: tuple[str, ...]
    fail_on: str | None
    strict: bool
    baseline: str | None
    fail_on_change: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    allow_no_capture: bool
    require_evidence: bool
    require_checked: tuple[str, ...]
    own: tuple[str, ...]
    config: str | None
    no_config: bool


def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """`--select a,b --select c` names three."""
    return tuple(name.strip() for part in given for name in part.split(",") if name.strip())
