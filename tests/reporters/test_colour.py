from __future__ import annotations

import io

import pytest

from cudagraph_doctor.reporters import table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(report, stream) -> str:
    table.write(report, stream)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_gets_colour(broken):
    assert "\x1b[" in written(broken, Terminal())


def test_a_pipe_gets_none(broken, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in written(broken, io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_none_gets_none(broken, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert "\x1b" not in written(broken, Terminal())


def test_without_colour_nothing_is_lost(broken):
    import re

    coloured, plain = Terminal(), io.StringIO()
    table.write(broken, coloured, width=80)
    table.write(broken, plain, width=80)
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue())
    assert [line.rstrip() for line in stripped.splitlines()] == plain.getvalue().splitlines()
