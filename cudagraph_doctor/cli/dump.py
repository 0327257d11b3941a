"""`cudagraph-doctor dump TRACE`."""

from __future__ import annotations

import click


@click.command("dump")
@click.argument("traces", nargs=-1, required=True, type=click.Path(), metavar="TRACE...")
@click.option("--around", type=int, metavar="SEQ", help="Only the record with this sequence number and its neighbours.")
@click.option(
    "--context", type=click.IntRange(0, 100_000), default=10, show_default=True, metavar="N", help="Neighbours."
)
def command(traces: tuple[str, ...], around: int | None, context: int) -> int:
    """Show the records of a trace, one a line: sequence number, time since the start, thread, kind, fields."""
    from cudagraph_doctor.cli.newest_run import newest_runs
    from cudagraph_doctor.trace.dump import dump
    from cudagraph_doctor.trace.reader import find_traces

    paths = find_traces(newest_runs(traces))
    for path in paths:
        if len(paths) > 1:
            click.echo(f"# {path.name}")
        for line in dump(path, around=around, context=context):
            click.echo(line)
    return 0
