"""Runs a script twice: as `python script.py`, and launched under the recorder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

DRIVER = """
import json, os, sys
from cudagraph_doctor import launch
from cudagraph_doctor.errors import DoctorError
options, out = json.loads(sys.argv[1]), sys.argv[2]
options["arguments"] = tuple(options.get("arguments", ()))
os.environ.update(options.pop("env", {}))
said = []
try:
    result = launch.run(launch.LaunchOptions(need_torch=False, **options), said.append)
except DoctorError as error:
    told = {"error": type(error).__name__, "message": error.message, "said": said}
else:
    told = {"end": {k: getattr(result.end, k) for k in result.end.__slots__} if hasattr(result.end, "__slots__")
            else dict(vars(result.end)), "trace": result.trace, "said": said, "notes": list(result.notes)}
with open(out, "w") as file:
    json.dump(told, file)
"""


@dataclass
class Launched:
    """What a launched target left: its streams, its end, its traces."""

    stdout: bytes
    stderr: bytes
    told: dict

    @property
    def end(self) -> dict:
        return self.told["end"]

    @property
    def records(self) -> list[dict]:
        """Records of the oldest process."""
        return self.all_records[0] if self.all_records else []

    @property
    def all_records(self) -> list[list[dict]]:
        folder = Path(self.told["trace"])
        traces = [
            [json.loads(line) for line in path.read_bytes().splitlines() if _is_json(line)]
            for path in folder.glob("*.jsonl")
        ]
        # A pool ends its workers as it likes, also before they have written a header.
        return sorted(filter(None, traces), key=lambda records: records[0]["t"])

    def of(self, kind: str) -> list[dict]:
        return [record for record in self.records if record["k"] == kind]

    @property
    def status(self) -> int:
        """As subprocess tells it: negative for a signal."""
        if self.end["signal"]:
            return -signal.Signals[self.end["signal"]]
        return self.end["returncode"]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def environment(**more: str) -> dict[str, str]:
    cleared = {key: value for key, value in os.environ.items() if not key.startswith(("CUDAGRAPH_DOCTOR", "COV_"))}
    return cleared | more


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trace = "trace"
        self.python = sys.executable
        """Interpreter of the target; the launcher runs under the one that runs the tests."""

    def script(self, text: str, name: str = "target.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    environment = staticmethod(environment)

    def driver(self, options: dict) -> list[str]:
        whole = {"python": self.python, "trace": self.trace, **options}
        return [sys.executable, "-c", DRIVER, json.dumps(whole), "told.json"]

    def told(self, stdout: bytes = b"", stderr: bytes = b"") -> Launched:
        told = json.loads((self.folder / "told.json").read_text())
        if "trace" in told:
            told["trace"] = str(self.folder / told["trace"])
        return Launched(stdout, stderr, told)

    def launch(self, options: dict, stdin: bytes = b"", timeout: float = 60, **env: str) -> Launched:
        done = subprocess.run(
            self.driver({**options, "env": env}),
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env=environment(),
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return self.told(done.stdout, done.stderr)

    def plain(self, arguments: list[str], stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=60,
            env=environment(**env),
            start_new_session=True,
            check=False,
        )

    def same(self, kind: str, target: str, *arguments: str, stdin: bytes = b"", **env: str) -> Launched:
        """Runs both ways and holds streams and status against each other."""
        flag = {"script": [], "module": ["-m"], "code": ["-c"]}[kind]
        plain = self.plain([*flag, target, *arguments], stdin, **env)
        self.trace = f"trace{len(list(self.folder.glob('trace*'))) or ''}"  # one run, one folder
        launched = self.launch({"kind": kind, "target": target, "arguments": arguments}, stdin, **env)
        assert told(launched.stdout) == told(plain.stdout)
        assert told(launched.stderr) == told(plain.stderr)
        assert launched.status == plain.returncode
        return launched


def told(stream: bytes) -> str:
    """A stream without addresses, which differ from run to run."""
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", stream.decode())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)
