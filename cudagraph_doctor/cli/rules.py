"""`cudagraph-doctor rules`."""

from __future__ import annotations

import click


@click.command("rules")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(form: str) -> None:
    """List the rules of every installed checker."""
    from cudagraph_doctor.engine.registry import load_all

    checkers = load_all()
    rules = [(rule, checker.name) for checker in checkers for rule in checker.rules]
    rules.sort(key=lambda item: item[0].id)
    if form == "json":
        import json

        rows = [
            {
                "rule": rule.id,
                "slug": rule.slug,
                "level": rule.level.value,
                "what": rule.what,
                "checker": checker,
                "needs": list(rule.needs),
            }
            for rule, checker in rules
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    slug_width = max((len(rule.slug) for rule, _ in rules), default=0)
    for rule, checker in rules:
        click.echo(f"{rule.id}  {rule.slug:<{slug_width}}  {rule.level.value:<7}  {checker}")
