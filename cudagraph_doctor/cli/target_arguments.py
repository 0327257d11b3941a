"""Where our options end and the target begins: as with `python`, everything after the script is the script's."""

from __future__ import annotations

from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Target:
    """What to run."""

    kind: str
    """`script`, `module`, `code` or `command`."""
    name: str
    """Path of the script, name of the module, the code, or the program."""
    arguments: tuple[str, ...]


class TargetCommand(click.Command):
    """A command whose first argument that is not an option, or the one after `-m` or `-c`, ends our options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether `--` stood before the target: click removes it."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        target = ctx.params.get("target") or ()
        before = len(given) - len(target) - 1
        ctx.meta["dashes"] = before >= 0 and given[before] == "--"
        return rest


def target_from(ctx: click.Context, *, module: bool, code: bool, target: tuple[str, ...]) -> Target:
    """What the arguments mean.

    Raises:
        click.UsageError: there is no target, or two kinds of it.
    """
    dashes = bool(ctx.meta.get("dashes"))
    if module + code + dashes > 1:
        raise click.UsageError("give one of: a script, -m MODULE, -c CODE, -- COMMAND", ctx)
    if not target:
        missing = "-m needs a module" if module else "-c needs code" if code else "nothing to run: name a script"
        raise click.UsageError(missing, ctx)
    kind = "module" if module else "code" if code else "command" if dashes else "script"
    return Target(kind, target[0], tuple(target[1:]))
