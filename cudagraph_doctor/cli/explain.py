"""`cudagraph-doctor explain RULE`."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("rules", nargs=-1, required=True, metavar="RULE...")
def command(rules: tuple[str, ...]) -> None:
    """Explain a rule: what it detects, why it breaks, what to write instead, what evidence it needs.

    RULE is a code (CGD101), a name (host-sync-in-capture), or a checker (capture_status) for all of its rules.
    """
    from cudagraph_doctor.cli.rule_text import terminal_text
    from cudagraph_doctor.cli.terminal_width import terminal_width
    from cudagraph_doctor.engine.registry import load_all
    from cudagraph_doctor.engine.selection import rules_named

    loaded = load_all()
    wanted = [rule for name in rules for rule in sorted(rules_named(loaded, name))]
    by_id = {rule.id: rule for checker in loaded for rule in checker.rules}
    width = terminal_width()
    click.echo("\n\n".join(terminal_text(by_id[rule], by_id, width) for rule in dict.fromkeys(wanted)))
