"""Targets of other interpreters than the tool's, which have none of the tool's packages."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from cudagraph_doctor.launch import interpreter

NAMES = ("python3.11", "python3.12", "python3.13")
SCRIPTS = {
    "identity": "import sys\nprint(__name__, __file__, __spec__, sys.argv, sys.path, sys.flags, input('name? '))\n",
    "chain": "try:\n    {}['first']\nexcept KeyError as error:\n    raise ValueError('second') from error\n",
    "group": "raise ExceptionGroup('several', [ValueError(1), OSError(2, 'no')])\n",
    "exit": "import sys\nsys.exit('a text for stderr')\n",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\nt.start()\nt.join()\n",
    "fork": "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nraise ValueError(child == 0)\n",
    "import": "import json.no_such_module\n",
    "segfault": "import ctypes\nctypes.string_at(0)\n",
    "syntax": "def f(:\n",
}


def find(name: str) -> str:
    path = shutil.which(name)
    found = interpreter.ask(path, dict(os.environ)) if path else None
    if found is None:
        pytest.skip(f"no {name} here")
    return found.path


@pytest.mark.parametrize("python", NAMES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_script_behaves_as_under_python(runner, python: str, script: str) -> None:
    runner.python = find(python)
    path = runner.script(SCRIPTS[script])
    launched = runner.same("script", path.name, "a", stdin=b"Ada\nL.\n")
    assert launched.records[0]["python"].startswith(python.removeprefix("python"))
    assert launched.records[-1]["k"] == "seal"
    assert not launched.of("probe-error")


@pytest.mark.parametrize("python", NAMES)
def test_nothing_of_the_tools_environment_is_seen(runner, python: str) -> None:
    runner.python = find(python)
    path = runner.script(
        """
import importlib.util, sys
print([name for name in ("click", "rich", "msgspec", "pynvml") if importlib.util.find_spec(name)])
print(sys.path, sys.prefix)
"""
    )
    runner.same("script", path.name)


@pytest.mark.parametrize("python", NAMES)
def test_recorder_imports_the_standard_library_alone(runner, python: str) -> None:
    """What a recorded start loads beyond a plain one is ours or standard, and slow modules are not paid for."""
    runner.python = find(python)
    path = runner.script("import sys\nprint(*sys.modules)\n")
    plain = runner.plain([path.name]).stdout.decode().split()
    more = set(runner.launch({"kind": "script", "target": path.name}).stdout.decode().split()) - set(plain)
    ours = {name for name in more if name.partition(".")[0] == "cudagraph_doctor"}
    assert {name.split(".")[1] for name in ours if "." in name} == {"_wire", "probe"}
    assert {name.partition(".")[0] for name in more - ours} <= {*sys.stdlib_module_names, "_opcode_metadata"}  # of 3.13
    assert not more & {"dataclasses", "inspect", "logging", "subprocess", "multiprocessing", "asyncio"}


def test_old_python_below_a_command_is_left_alone(runner) -> None:
    """The door is met by any Python on the way, and only opens for those that can be recorded."""
    paths = filter(None, map(shutil.which, ("python3.8", "python3.9", "python3.10")))
    old = next((found.path for path in paths if (found := interpreter.ask(path, dict(os.environ)))), None)
    if old is None:
        pytest.skip("no old Python here")
    code = "import sys; print([p for p in sys.path if 'cudagraph_doctor' in p])"
    launched = runner.launch({"kind": "command", "target": old, "arguments": ["-c", code], "python": None})
    assert launched.told["error"] == "TargetError"
    assert "left no trace" in launched.told["message"]
    assert (launched.stdout, launched.stderr) == (b"[]\n", b"")
