"""`cudagraph-doctor env`."""

from __future__ import annotations

import click


@click.command("env")
@click.option("--python", metavar="PATH", type=click.Path(), help="The interpreter of your script.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(python: str | None, form: str) -> int:
    """Say what can be checked on this machine, what cannot, and the way out for each lack."""
    from cudagraph_doctor.cli.terminal_width import terminal_width
    from cudagraph_doctor.environment.abilities import abilities
    from cudagraph_doctor.environment.description import text
    from cudagraph_doctor.environment.machine import find_machine

    machine = find_machine(_interpreter(python))
    able = abilities(machine)
    if form == "json":
        import dataclasses
        import json

        answer = {"machine": dataclasses.asdict(machine), "abilities": [dataclasses.asdict(one) for one in able]}
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(text(machine, able, terminal_width()))
    return 0


def _interpreter(python: str | None) -> str:
    """The one that `run` would choose; without torch anywhere, the one that it would refuse."""
    import os

    from cudagraph_doctor.errors import TargetError
    from cudagraph_doctor.launch.environment_variables import clean
    from cudagraph_doctor.launch.interpreter import choose

    environment = clean(dict(os.environ))
    try:
        return choose(python, environment).path
    except TargetError:
        return choose(python, environment, need_torch=False).path
