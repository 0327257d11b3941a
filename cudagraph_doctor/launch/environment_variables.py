"""The variables with which the target, and every Python below it, meets the recorder."""

from __future__ import annotations

import json
import os

import cudagraph_doctor
from cudagraph_doctor._wire import ENV_CONFIG, ENV_TRACE
from cudagraph_doctor.launch.command_line import target_folder
from cudagraph_doctor.launch.options import LaunchOptions

DOOR = os.path.join(os.path.dirname(os.path.abspath(cudagraph_doctor.__file__)), "probe", "door")
"""Folder that goes on PYTHONPATH. It holds a sitecustomize and nothing else."""


def clean(environment: dict[str, str]) -> dict[str, str]:
    """An environment without a recorder: ours may itself run below one."""
    cleaned = {key: value for key, value in environment.items() if key not in {ENV_CONFIG, ENV_TRACE}}
    if "PYTHONPATH" in cleaned:
        entries = cleaned["PYTHONPATH"].split(os.pathsep)
        cleaned["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if os.path.abspath(entry or ".") != DOOR)
        if not cleaned["PYTHONPATH"]:
            del cleaned["PYTHONPATH"]
    return cleaned


def recorded(
    environment: dict[str, str], options: LaunchOptions, *, trace: str, run: str, device: str
) -> dict[str, str]:
    """The target's environment.

    Args:
        environment: a clean one.
        options: what the user asked for.
        trace: absolute path of the run's folder.
        run: id of the run.
        device: `cuda` or `sim`.
    """
    config = {
        "trace": trace,
        "run": run,
        "launcher": os.getpid(),
        "device": device,
        "sim_devices": options.sim_devices,
        "evidence": options.evidence,
        "deep": options.deep,
        "keep_going": options.keep_going,
        "target": target_folder(options),
        "cwd": os.getcwd(),
        "own": list(options.own),
    }
    path = environment.get("PYTHONPATH")
    return {
        **environment,
        ENV_CONFIG: json.dumps(config, separators=(",", ":")),
        "PYTHONPATH": DOOR + (os.pathsep + path if path else ""),
    }
