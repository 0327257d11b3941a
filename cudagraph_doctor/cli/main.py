"""Entry point: finds the command, and turns our errors into one line and an exit code."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from cudagraph_doctor import __version__
from cudagraph_doctor.cli.standard_output import silence_standard_output
from cudagraph_doctor.errors import DoctorError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": "Run a script, module or command, and diagnose its CUDA graph captures.",
    "check": "Diagnose traces that were recorded before, on any machine.",
    "baseline": "Record what is known, so that a gate fails only on what is new.",
    "diff": "Compare the graphs of two runs.",
    "explain": "Explain a rule: what it detects, why it breaks, what to write instead.",
    "rules": "List the rules.",
    "key": "Say whether the key by which a program chooses among its graphs is complete.",
    "dump": "Show the records of a trace.",
    "pack": "Pack a trace into one file, for a bug report.",
    "env": "Say what can be checked on this machine, and what to do about the rest.",
}
"""Every command with its help, here so that `--help` imports none of them."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a standard output that takes no more says; any other error of the system that escapes is a bug."""


class LazyGroup(click.Group):
    """Imports a command's file when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of use, not of the alphabet."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command from its own file."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"cudagraph_doctor.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """As click does, but a mistyped command is answered with the nearest, and a script with what was meant."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        if name.endswith(".py") or os.path.sep in name:
            raise click.UsageError(f"no such command: {name}; to run a script: cudagraph-doctor run {name}")
        near = get_close_matches(name, COMMANDS, n=1)
        raise click.UsageError(f"no such command: {name}" + (f"; did you mean {near[0]}?" if near else ""))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A reader that has seen enough (`head`, `less`) is no error; click would exit with 1."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except BrokenPipeError:
            silence_standard_output()
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="cudagraph-doctor %(version)s")
def cli() -> None:
    """Find out what breaks a CUDA graph capture, what the graph is missing, and at which line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status (docs/exit-codes.md).

    Our own errors and click's become one line on standard error, with the way out. Anything else is a bug, and keeps
    its traceback.
    """
    given = None if arguments is None else list(arguments)
    gc.set_threshold(100_000)  # imports make many objects and no garbage: a fifth of the start-up of `check`
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what its encoding lacks is escaped, not an error
    try:
        result = cli.main(args=given, prog_name="cudagraph-doctor", standalone_mode=False)
    except DoctorError as error:
        return _say(error.message, error.hint, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"See {context.command_path if context else 'cudagraph-doctor'} --help"
        return _say(error.format_message(), hint, 2)
    except click.Abort:
        return _say("interrupted", None, 130)
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        silence_standard_output()
        return _say(f"cannot write to standard output: {error.strerror}", "Give it a place with room", 2)
    return int(result or 0)


def _say(message: str, hint: str | None, code: int) -> int:
    line = " ".join(message.split())
    if hint:
        line = f"{line.rstrip('.')}. {hint if hint.startswith('cudagraph-doctor') else hint[0].upper() + hint[1:]}"
    click.echo(f"cudagraph-doctor: {_printable(line)}", err=True)
    return code


def _printable(text: str) -> str:
    """A message may quote a file name or a trace: no control characters reach the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
