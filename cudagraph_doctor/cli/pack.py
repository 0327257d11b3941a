"""`cudagraph-doctor pack TRACE -o FILE`."""

from __future__ import annotations

import click


@click.command("pack")
@click.argument("trace", type=click.Path(), metavar="TRACE")
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE", help="The file to write.")
@click.option("--no-source", is_flag=True, help="Leave out the text of source files.")
@click.option("--redact", is_flag=True, help="Leave out also what names people, machines and data.")
def command(trace: str, output: str, no_source: bool, redact: bool) -> int:
    """Pack a trace into one compressed file, for a bug report. `check` reads it as it is."""
    from cudagraph_doctor.cli.newest_run import newest_runs
    from cudagraph_doctor.trace.pack import pack

    (run,) = newest_runs((trace,))
    written = pack(run, output, source=not no_source, redact=redact)
    click.echo(f"cudagraph-doctor: wrote {written}", err=True)
    return 0
