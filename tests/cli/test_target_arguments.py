"""Where our options end: exactly where `python`'s would."""

from __future__ import annotations

import pytest

from cudagraph_doctor.cli import run as run_command
from cudagraph_doctor.cli.target_arguments import Target, target_from


def parse(*arguments: str) -> tuple[Target, dict]:
    ctx = run_command.command.make_context("run", list(arguments))
    params = ctx.params
    return target_from(ctx, module=params["module"], code=params["code"], target=params["target"]), params


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["x.py"], Target("script", "x.py", ())),
        (["x.py", "--format", "json", "-m", "-h"], Target("script", "x.py", ("--format", "json", "-m", "-h"))),
        (["x.py", "--", "y"], Target("script", "x.py", ("--", "y"))),
        (["x.py", ""], Target("script", "x.py", ("",))),
        (["-m", "pkg.mod", "--trace", "z"], Target("module", "pkg.mod", ("--trace", "z"))),
        (["-c", "print(1)", "-c", "--help"], Target("code", "print(1)", ("-c", "--help"))),
        (["--", "torchrun", "--nproc", "2", "x.py"], Target("command", "torchrun", ("--nproc", "2", "x.py"))),
        (["--strict", "--", "python", "--", "x"], Target("command", "python", ("--", "x"))),
        (["-"], Target("script", "-", ())),
    ],
)
def test_the_target_and_its_arguments(arguments, target):
    assert parse(*arguments)[0] == target


def test_options_before_the_target_are_ours():
    target, params = parse("--format", "json", "--timeout", "5", "--own", "a", "--own", "b", "x.py", "--strict")
    assert target == Target("script", "x.py", ("--strict",))
    assert params["form"] == "json"
    assert params["timeout"] == 5
    assert params["own"] == ("a", "b")
    assert params["strict"] is False
