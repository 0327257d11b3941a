"""Builds the C probe and the stubs once a session, and runs target.py against them."""

import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "cudagraph_doctor" / "probe" / "native"
COMPILER = shutil.which("cc") or shutil.which("gcc")


@dataclass
class Build:
    folder: Path
    cupti_name: str = "libcupti.so.13"

    @property
    def probe(self):
        return self.folder / "_probe.so"

    @property
    def cupti(self):
        return self.folder / self.cupti_name

    @property
    def cuda(self):
        return self.folder / "libcuda.so.1"

    @property
    def stress(self):
        return self.folder / "stress"


def build(folder, *flags, broken_layout=False, cupti_name="libcupti.so.13"):
    """Compiles everything with extra flags; skips where there is no compiler or no such sanitizer."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    made = Build(folder, cupti_name)
    common = [COMPILER, "-std=c11", "-O1", "-g", "-fPIC", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    stub = ["-DSTUB_BROKEN_LAYOUT"] if broken_layout else []
    link = [f"-L{folder}", f"-l:{cupti_name}", f"-Wl,-rpath,{folder}"]
    sources = sorted(str(path) for path in NATIVE.glob("*.c"))
    for command in (
        [*common, "-shared", "-fvisibility=hidden", "-static-libgcc", *sources, "-o", made.probe, "-ldl"],
        [*common, *stub, "-shared", f"-Wl,-soname,{cupti_name}", HERE / "stub_cupti.c", "-o", made.cupti],
        [*common, "-shared", "-Wl,-soname,libcuda.so.1", HERE / "stub_cuda.c", "-o", made.cuda, *link],
        [*common, HERE / "stress.c", "-o", made.stress, f"-L{folder}", "-l:libcuda.so.1", *link[1:], "-ldl"],
    ):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if flags and "cannot find" in done.stderr:
            pytest.skip(f"no library for {' '.join(flags)}")
        assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def build_with():
    return build


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("native"))


@dataclass
class Recording:
    records: list
    tid: int
    others: list
    printed: list
    lost: int
    """Records lost, as the head of the slots file says."""

    def of(self, kind, **fields):
        return [r for r in self.records if r["k"] == kind and all(r.get(k) == v for k, v in fields.items())]

    def calls(self, api=None):
        """Calls in the order in which they ended, with their outcome merged in."""
        calls = [dict(r) for r in self.records if r["k"] == "call" and api in (None, r["api"])]
        outcomes = {r["of"]: r for r in self.of("outcome")}
        for call in calls:
            outcome = outcomes.get(call["q"], {})
            call.update({k: v for k, v in outcome.items() if k not in ("k", "q", "of")})
        return calls


@pytest.fixture
def record(built, tmp_path):
    def run(scenario, *, build=built, evidence="driver", probe=None, environment=None, **config):
        folder = tmp_path / "trace"
        values = {"trace": str(folder), "evidence": evidence, "target": str(HERE), "cwd": str(tmp_path), **config}
        values["native_library"] = str(probe or build.probe)
        command = [sys.executable, str(HERE / "target.py"), json.dumps(values)]
        command += [str(build.cupti), str(build.cuda), scenario]
        path = os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        traces = [[json.loads(line) for line in file.read_text().splitlines()] for file in folder.glob("*.jsonl")]
        traces.sort(key=lambda records: records[0]["how"] == "fork")
        heads = [struct.unpack("8Q", file.read_bytes()[:64]) for file in folder.glob("*.slots")]
        printed = [int(word) for word in done.stdout.split()]
        return Recording(traces[0], printed[0], traces[1:], printed[1:], sum(head[1] for head in heads))

    return run
