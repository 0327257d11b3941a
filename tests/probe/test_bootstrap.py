"""What happens when a process is recorded: seen in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DOOR = Path(__file__).parents[2] / "cudagraph_doctor" / "probe" / "door"
PACKAGE = DOOR.parents[2]


class Process:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, code: str, **env: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CUDAGRAPH_DOCTOR")}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=kept | env, capture_output=True, text=True, check=False
        )

    def recorded(self, code: str, config: dict | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        values = json.dumps({"trace": str(self.folder / "trace"), **(config or {})})
        return self.run(code, CUDAGRAPH_DOCTOR_CONFIG=values, PYTHONPATH=str(DOOR), **env)

    def traces(self, folder: str = "trace") -> list[list[dict]]:
        paths = sorted((self.folder / folder).glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


@pytest.fixture
def process(tmp_path):
    return Process(tmp_path)


# A package that stands in for torch, and takes a moment to be complete.
FAKE_TORCH = """
import sys, types
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "torch.cuda"):
            from importlib.machinery import ModuleSpec
            return ModuleSpec(name, self, origin="fake", is_package=True)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if module.__name__ == "torch":
            import torch.cuda
            module.__version__ = "0.0"
sys.meta_path.insert(1, Finder())  # behind the recorder, before the real torch
"""


def test_nothing_happens_without_being_asked(process) -> None:
    done = process.run("import sys; print('cudagraph_doctor.probe.bootstrap' in sys.modules)", PYTHONPATH=str(DOOR))
    assert done.stdout == "True\n"
    assert list(process.folder.iterdir()) == []


def test_environment_alone_records_and_seals(process) -> None:
    code = """
from cudagraph_doctor.probe import bootstrap
slot = bootstrap.current().context.slots.open(3)
slot[1] = slot[2] = 8
import os; os.chdir("/")
1 / 0
"""
    done = process.run(code, PYTHONPATH=str(DOOR), CUDAGRAPH_DOCTOR_TRACE="here")
    assert "ZeroDivisionError" in done.stderr
    (records,) = process.traces("here")
    assert records[0]["how"] == "env"
    assert [record["k"] for record in records][-3:] == ["exception", "replay", "seal"]
    assert [path.suffix for path in (process.folder / "here").iterdir()] == [".jsonl"]


def test_automatic_import_records(process) -> None:
    done = process.run("import cudagraph_doctor.auto\nraise ValueError('seen')", PYTHONPATH=str(PACKAGE))
    assert done.stderr.endswith("ValueError: seen\n")
    assert "cudagraph_doctor/" not in done.stderr
    (records,) = process.traces("cudagraph-doctor-trace")
    assert records[0]["how"] == "auto"
    assert [record["where"] for record in records if record["k"] == "exception"] == ["uncaught"]


def test_automatic_import_in_a_recorded_process_does_nothing(process) -> None:
    process.recorded("import cudagraph_doctor.auto")
    assert len(process.traces()) == 1
    assert not (process.folder / "cudagraph-doctor-trace").exists()


def test_the_tool_does_not_record_itself(process) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'cudagraph_doctor', 'rules'])"
    process.run(code, PYTHONPATH=str(DOOR), CUDAGRAPH_DOCTOR_TRACE="here")
    assert len(process.traces("here")) == 1


def test_header_tells_the_process_and_no_secrets(process) -> None:
    done = process.recorded(
        "import os; print(os.getpid())",
        {"run": "r1", "device": "cuda", "launcher": os.getpid()},
        CUDA_MODULE_LOADING="LAZY",
        PYTORCH_SECRET="x",
        SLURM_PROCID="3",
        HOME_PAGE="y",
    )
    header = process.traces()[0][0]
    assert header["pid"] == int(done.stdout)
    assert header["ppid"] == os.getpid()
    assert (header["run"], header["how"], header["rank"], header["backend"]) == ("r1", "run", 3, "cuda")
    assert header["env"] == {"CUDA_MODULE_LOADING": "LAZY"} | {
        key: value for key, value in header["env"].items() if key in os.environ
    }
    assert "PYTORCH_SECRET" not in header["env"]
    assert str(process.folder) not in json.dumps(header["config"])


def test_no_hook_is_loaded_before_cuda_comes(process) -> None:
    code = "import sys; print([name for name in sys.modules if 'probe.hooks' in name])"
    assert process.recorded(code).stdout == "[]\n"


def test_hooks_are_installed_after_torch_is_complete(process) -> None:
    done = process.recorded(FAKE_TORCH + "import torch; print(torch.__version__)")
    assert done.stdout == "0.0\n", done.stderr
    (records,) = process.traces()
    assert [record["level"] for record in records if record["k"] == "evidence"] == ["python"]
    named = {record["name"] for record in records if record["k"] == "capability"}
    assert {"capture", "streams"} <= named  # on, or not available with this torch, but told


def test_every_hook_is_about_a_package_that_brings_cuda(process) -> None:
    """Otherwise it would be found too late: hooks are loaded when the first of these packages is imported."""
    code = """
import importlib, pkgutil
from cudagraph_doctor.probe import bootstrap, hooks
for found in pkgutil.iter_modules(hooks.__path__):
    hook = importlib.import_module(f"{hooks.__name__}.{found.name}")
    if hasattr(hook, "install"):
        assert hook.NAME
        for name in hook.MODULES:
            assert name.partition(".")[0] in bootstrap.BRING_CUDA, (found.name, name)
"""
    done = process.recorded(code)
    assert done.returncode == 0, done.stderr


def test_simulation_that_cannot_be_ends_the_target_with_a_reason(process) -> None:
    code = (
        FAKE_TORCH
        + """
import sys, types
sim = types.ModuleType("cudagraph_doctor.sim")
def install(devices, emit, **options):
    raise RuntimeError("this build is unknown")
sim.install = install
sys.modules["cudagraph_doctor.sim"] = sim
print("before")
import torch
print("after")
"""
    )
    done = process.recorded(code, {"device": "sim"})
    assert done.returncode == 3
    assert (done.stdout, done.stderr) == ("before\n", "")
    (sim,) = [r for r in process.traces()[0] if r["k"] == "capability" and r["name"] == "sim"]
    assert (sim["state"], sim["why"]) == ("unavailable", "this build is unknown")


def test_simulation_hides_real_devices(process) -> None:
    done = process.recorded("import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))", {"device": "sim"})
    assert done.stdout == "''\n"


def test_broken_hook_is_told_and_the_target_runs(process) -> None:
    code = (
        """
import sys, types
broken = types.ModuleType("broken")
broken.NAME, broken.MODULES = "broken", ("torch",)
def install(module, context):
    raise ValueError("not today")
broken.install = install
sys.modules["cudagraph_doctor.probe.hooks.graph"] = broken
"""
        + FAKE_TORCH
        + "import torch; print('runs')"
    )
    done = process.recorded(code)
    assert (done.stdout, done.stderr) == ("runs\n", "")
    errors = [r for r in process.traces()[0] if r["k"] == "probe-error"]
    assert ("broken", "ValueError: not today") in [(r["hook"], r["error"]) for r in errors]


def test_callbacks_after_fork_run_in_the_child(process) -> None:
    code = """
import os
from cudagraph_doctor.probe import bootstrap
context = bootstrap.current().context
first = context.stack()
child = os.fork()
second = context.stack()
context.write("log", message="child" if child == 0 else "parent")
if child: os.waitpid(child, 0)
"""
    process.recorded(code)
    for records in process.traces():
        kinds = [record["k"] for record in records]
        assert "stack" in kinds, "a child's file defines the stacks that it names"
        assert "source" in kinds


def test_uncaught_exception_is_told_although_the_target_replaced_the_hook(process) -> None:
    process.recorded("import sys; sys.excepthook = lambda *told: None; raise ValueError('seen by nobody')")
    (told,) = [record for record in process.traces()[0] if record["k"] == "exception"]
    assert (told["where"], told["chain"][0]["message"]) == ("uncaught", "seen by nobody")


def test_module_of_the_target_named_torch_is_left_alone(process) -> None:
    """Also for the simulated device, which would otherwise end the run."""
    (process.folder / "torch.py").write_text("x = 5\n")
    done = process.recorded("import torch; print(torch.x)", {"device": "sim"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")
    records = process.traces()[0]
    (told,) = [record for record in records if record.get("name") == "torch"]
    assert (told["state"], "torch.py, not PyTorch" in told["why"]) == ("unavailable", True)
    assert not [record for record in records if record["k"] == "probe-error"]
