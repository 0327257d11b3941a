"""Runs scripts on the simulated device, each in a fork of one process that has torch and the device ready.

    python tests/sim/forked_runs.py OUT.json SCRIPT...

Writes a JSON object: script to {"status", "stdout", "stderr", "records"}. A script costs a few hundredths of a second
instead of the seconds that importing torch takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from typing import Any

JOBS = 2
SECONDS = 120


def main(out: str, scripts: list[str]) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    from cudagraph_doctor.sim import install

    torch.set_num_threads(1)
    records: list[dict[str, object]] = []

    def emit(record: dict[str, object]) -> int:
        records.append(record)
        return len(records)

    install(1, emit)
    with contextlib.suppress(ImportError):
        import transformers  # noqa: F401 - the models' scripts import it

    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        running: dict[int, str] = {}
        waiting = list(scripts)
        while waiting or running:
            while waiting and len(running) < JOBS:
                script = waiting.pop(0)
                running[start(script, base(folder, script), records)] = script
            child, status = os.wait()
            script = running.pop(child)
            results[script] = read(base(folder, script)) | {"status": os.waitstatus_to_exitcode(status)}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(results, file)


def base(folder: str, script: str) -> str:
    return os.path.join(folder, script.replace(os.sep, "-"))


def start(script: str, path: str, records: list[dict[str, object]]) -> int:
    child = os.fork()
    if child:
        return child
    import torch

    from cudagraph_doctor.sim.runner import run_script

    torch.set_num_threads(1)  # makes the child's own thread pool: the autograd engine's threads would race for it
    signal.alarm(SECONDS)
    for descriptor, kind in ((1, "stdout"), (2, "stderr")):
        file = os.open(f"{path}.{kind}", os.O_WRONLY | os.O_CREAT)
        os.dup2(file, descriptor)
    status = run_script([script])
    sys.stdout.flush()
    sys.stderr.flush()
    with open(f"{path}.records", "w", encoding="utf-8") as file:
        json.dump(records, file)
    os._exit(status)


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("stdout", "stderr", "records"):
        try:
            with open(f"{path}.{kind}", encoding="utf-8") as file:
                found[kind] = file.read()
        except FileNotFoundError:
            found[kind] = ""
    found["records"] = json.loads(found["records"] or "[]")
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
    os._exit(0)
