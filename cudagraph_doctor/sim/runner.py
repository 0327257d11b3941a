"""`python -m cudagraph_doctor.sim.runner [options] script.py [args]`: a script on the simulated device, unrecorded.

For tests and for trying things out. `--records FILE` writes what a recorder would get as JSON Lines.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback

from cudagraph_doctor.sim.device import install
from cudagraph_doctor.sim.environment import prepare_environment
from cudagraph_doctor.sim.unavailable import SimUnavailable


def main(argv: list[str]) -> int:
    """Run the script; its exit status."""
    devices, records, keep_going = 1, None, False
    while argv and argv[0].startswith("--"):
        option = argv.pop(0)
        if option == "--devices":
            devices = int(argv.pop(0))
        elif option == "--records":
            records = open(argv.pop(0), "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
        elif option == "--keep-going":
            keep_going = True
        else:
            print(f"unknown option {option}", file=sys.stderr)
            return 2
    prepare_environment(os.environ)

    def emit(record: dict[str, object]) -> int:
        if records is not None:
            records.write(json.dumps(record) + "\n")
            records.flush()
        return 0

    try:
        install(devices, emit, keep_going=keep_going)
    except SimUnavailable as reason:
        print(f"no simulated device: {reason}", file=sys.stderr)
        return 3
    return run_script(argv)


def run_script(argv: list[str]) -> int:
    """Run `argv[0]` as the main program with the rest as its arguments; its exit status."""
    sys.argv = argv
    sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Storages of the simulated device outlive the interpreter: do not let it tear them down.
    os._exit(status)
