"""The command line of the target: the interpreter's own, so that the target is `python script.py`, no imitation."""

from __future__ import annotations

import os
import shutil

from cudagraph_doctor.errors import TargetError, UsageError
from cudagraph_doctor.launch.options import LaunchOptions


def command_line(options: LaunchOptions, python: str) -> list[str]:
    """What is executed.

    Args:
        options: target and arguments.
        python: path of the interpreter; not used for a command.

    Raises:
        UsageError: there is no such script.
        TargetError: there is no such command.
    """
    arguments = list(options.arguments)
    if options.kind == "module":
        return [python, "-m", options.target, *arguments]
    if options.kind == "code":
        return [python, "-c", options.target, *arguments]
    if options.kind == "script":
        if options.target != "-" and not os.path.exists(options.target):
            raise UsageError(f"{options.target or repr(options.target)}: no such file")
        return [python, options.target, *arguments]
    found = shutil.which(options.target)
    if found is None:
        raise TargetError(f"{options.target}: no such command")
    return [options.target, *arguments]


def target_folder(options: LaunchOptions) -> str:
    """Folder that is the root of the target's own files: the script's, else the current one."""
    if options.kind == "script" and options.target != "-":
        path = os.path.realpath(options.target)
        return path if os.path.isdir(path) else os.path.dirname(path)
    return os.getcwd()
