"""`cudagraph-doctor diff A B`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from cudagraph_doctor.cli.newest_run import newest_runs
from cudagraph_doctor.errors import UsageError

if TYPE_CHECKING:
    from cudagraph_doctor.gate.graph_facts import RunGraphs


@click.command("diff")
@click.argument("before", metavar="A", type=click.Path())
@click.argument("after", metavar="B", type=click.Path())
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--fail-on-change",
    multiple=True,
    metavar="CONDITIONS",
    help="Exit status 1 where graphs changed more: nodes>5%,pool>10%,escapes>0,skips>0,captures<N.",
)
@click.option("--own", multiple=True, metavar="PACKAGE|PATH", help="Count this package or folder as your own code.")
def command(before: str, after: str, form: str, fail_on_change: tuple[str, ...], own: tuple[str, ...]) -> int:
    """Compare the graphs of two runs, each a trace or a baseline, on any machine.

    Says which nodes were added, removed or changed, at which lines; how memory changed; and whether
    cudaGraphExecUpdate would take the new graph into the old executable graph. No addresses are compared.
    """
    from cudagraph_doctor.gate.conditions import parse_conditions
    from cudagraph_doctor.gate.graph_diff import diff
    from cudagraph_doctor.gate.limits import changes

    conditions = parse_conditions(",".join(fail_on_change)) if fail_on_change else ()
    found = diff(_graphs(before, own), _graphs(after, own))
    broken = list(changes(found, conditions))
    if form == "json":
        import msgspec

        told = {"format": "cudagraph-doctor-diff", "version": 1, "changed": found.changed,
                **msgspec.to_builtins(found), "violations": [violation.what for violation in broken]}  # fmt: skip
        click.echo(json.dumps(told, indent=2))
    else:
        from cudagraph_doctor.cli.diff_text import diff_lines

        for line in diff_lines(found, [violation.what for violation in broken]):
            click.echo(line)
    return 1 if broken else 0


def _graphs(path: str, own: tuple[str, ...]) -> RunGraphs:
    """The graphs of a baseline, or those of a trace.

    Raises:
        UsageError: there is no such file, or a baseline without graphs.
        TraceError: it is no trace.
    """
    if os.path.isfile(path) and _is_baseline(path):
        from cudagraph_doctor.gate.baseline import read

        graphs = read(path).graphs
        if graphs is None:
            raise UsageError(f"the baseline {path} holds no graphs", "write it anew: cudagraph-doctor baseline write")
        return graphs
    from cudagraph_doctor.engine.registry import load_all
    from cudagraph_doctor.engine.run import read_sessions, report_on
    from cudagraph_doctor.gate.graph_facts import graphs_of
    from cudagraph_doctor.gate.roots import find_roots

    sessions, limits = read_sessions(newest_runs((path,)), own)
    report = report_on(sessions, load_all(), extra_limits=limits)
    if any(limit.incomplete for limit in report.limits):
        click.echo(f"cudagraph-doctor: {path} is damaged; its graphs may be incomplete", err=True)
    return graphs_of(sessions, report, find_roots().cwd)


def _is_baseline(path: str) -> bool:
    """A trace has a record a line; a baseline is one object over many."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(200)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", "name a trace or a baseline") from error
    return b'"cudagraph-doctor-baseline"' in head or head.lstrip()[:2] in (b"{\n", b"{\r")
