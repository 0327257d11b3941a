"""The command line's frame: help, mistakes, our errors."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from cudagraph_doctor import errors
from cudagraph_doctor.cli import main as cli_main
from cudagraph_doctor.cli.main import COMMANDS, main


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_its_name(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"cudagraph-doctor {name}" in capsys.readouterr().out


def test_without_arguments_help_is_shown_and_it_is_a_usage_error(capsys):
    assert main([]) == 2
    assert "Commands" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "did you mean check?"),
        (["decode.py"], "to run a script: cudagraph-doctor run decode.py"),
        (["run", "--bogus", "x.py"], "--bogus"),
        (["run", "--format", "sarf", "x.py"], "sarf"),
        (["run", "--baseline", "b.json", "x.py"], "cannot read the baseline b.json"),
        (["run", "--timeout", "0", "x.py"], "timeout"),
        (["run"], "nothing to run"),
        (["run", "-m"], "-m needs a module"),
        (["run", "-m", "-c", "x"], "give one of"),
        (["check"], "TRACE"),
        (["pack", "x"], "--output"),
    ],
)
def test_a_mistake_gets_one_line_and_code_2(arguments, said, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert not shown.out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("no such file", "give another"), 2),
        (errors.OutputError("disk full"), 2),
        (errors.TargetError("no GPU here", "use --device sim"), 3),
        (errors.TraceError("not a trace:\n\x1b[31mred"), 3),
    ],
)
def test_our_errors_become_one_line_and_their_code(error, code, capsys, monkeypatch):
    def fail(**_):
        raise error

    monkeypatch.setattr(cli_main.cli, "main", fail)
    assert main(["run"]) == code
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert shown.startswith("cudagraph-doctor: ")
    assert "\x1b" not in shown
    assert error.hint is None or error.hint[0].upper() + error.hint[1:] in shown


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail(**_):
        raise ZeroDivisionError

    monkeypatch.setattr(cli_main.cli, "main", fail)
    with pytest.raises(ZeroDivisionError):
        main(["rules"])


def test_an_interrupt_is_not_a_traceback(monkeypatch, capsys):
    def fail(**_):
        raise click.Abort

    monkeypatch.setattr(cli_main.cli, "main", fail)
    assert main(["rules"]) == 130


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from cudagraph_doctor.cli.main import main; main(['--help']); "
        "heavy = {'rich', 'msgspec', 'torch', 'cuda', 'numpy', 'pynvml', 'asyncio', 'importlib.metadata'}; "
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "HEAVY []"


def test_python_dash_m_is_the_same_program():
    result = subprocess.run(
        [sys.executable, "-m", "cudagraph_doctor", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("cudagraph-doctor ")


def test_python_dash_m_has_the_same_exit_status():
    command = [sys.executable, "-m", "cudagraph_doctor", "no-such-command"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
