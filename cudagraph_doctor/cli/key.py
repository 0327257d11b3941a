"""`cudagraph-doctor key TRACE`."""

from __future__ import annotations

import click


@click.command("key")
@click.argument("traces", nargs=-1, required=True, type=click.Path(), metavar="TRACE...")
def command(traces: tuple[str, ...]) -> int:
    """Is the key by which the program chooses among its graphs complete?

    For each line that captures: the values of the host that differ among its graphs, which of them captured work
    depends on, the values that changed although they are in no key, and the replays of a graph that was captured for
    another value than the one in force. Exits with 1 where the key is incomplete.
    """
    from cudagraph_doctor.cli.key_text import key_text
    from cudagraph_doctor.cli.newest_run import newest_runs
    from cudagraph_doctor.engine.run import read_sessions

    sessions, _ = read_sessions(newest_runs(traces))
    text, complete = key_text(sessions)
    click.echo(text)
    return 0 if complete else 1
