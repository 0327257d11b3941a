"""A launched target is `python script.py`: same output, same error text, same status."""

from __future__ import annotations

import pytest

SCRIPTS = {
    "identity": """
import sys, os
import __main__
print(__name__, __file__, __spec__, __doc__, sys.argv, sys.path, os.getcwd(), sys.flags, sys.warnoptions)
print(sorted(vars(__main__)), sys.modules["__main__"] is __main__, "sitecustomize" in sys.modules)
print(os.getpgrp() == os.getpid() or "guest", sys.stdin.isatty(), sys.stdout.isatty())
""",
    "raises": "def f(x):\n    return 1 / x\n\nf(0)\n",
    "raises_in_chain": """
def inner():
    raise KeyError("first")

def outer():
    try:
        inner()
    except KeyError as error:
        raise ValueError("second") from error

try:
    outer()
except ValueError:
    print("between")
    [].pop()
""",
    "exception_group": """
def members():
    try:
        raise OSError(2, "no")
    except OSError as error:
        yield error
    yield ValueError("two")

raise ExceptionGroup("several", list(members()))
""",
    "notes_and_base_exception": """
class Odd(BaseException):
    def __str__(self):
        return "odd text"

error = Odd()
error.add_note("a note")
raise error
""",
    "str_raises": """
class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")

raise Odd
""",
    "exit_text": "import sys\nsys.exit('a text for stderr')\n",
    "exit_number": "import sys\nsys.exit(7)\n",
    "exit_none": "raise SystemExit\n",
    "exit_float": "raise SystemExit(3.5)\n",
    "exit_large": "raise SystemExit(2**40 + 3)\n",
    "exit_tuple": "raise SystemExit((1, 'x'))\n",
    "keyboard_interrupt": "raise KeyboardInterrupt\n",
    "syntax_error": "def f(:\n    pass\n",
    "bad_encoding": "x = 'é'\nprint(undefined_name)\n",
    "recursion": "def f(n):\n    return f(n + 1)\n\nf(0)\n",
    "import_error": "import no_such_module_anywhere\n",
    "os_exit": "import os, sys\nprint('lost in the buffer')\nsys.stdout.flush()\nos._exit(9)\n",
    "os_exit_in_atexit": """
import atexit, os
atexit.register(print, "later", flush=True)
atexit.register(lambda: os._exit(5))
atexit.register(print, "first", flush=True)
raise ValueError("on the way out")
""",
    "atexit_order": """
import atexit, threading, time
def worker():
    time.sleep(0.1)
    print("thread ends")
atexit.register(print, "one")
atexit.register(print, "two")
threading.Thread(target=worker).start()
print("main ends")
""",
    "daemon_thread": """
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("main ends")
""",
    "thread_raises": """
import threading
def worker():
    raise ValueError("in a thread")
thread = threading.Thread(target=worker, name="worker-7")
thread.start()
thread.join()
print("main ends")
""",
    "own_excepthook": """
import sys
def mine(kind, error, frames):
    print("mine:", kind.__name__, error, frames.tb_lineno, frames.tb_next)
sys.excepthook = mine
raise ValueError("seen by mine")
""",
    "excepthook_raises": """
import sys
def mine(kind, error, frames):
    raise RuntimeError("in the hook")
sys.excepthook = mine
raise ValueError("seen by mine")
""",
    "own_threading_excepthook": """
import threading
threading.excepthook = lambda args: print("mine:", args.exc_type.__name__, args.thread.name)
thread = threading.Thread(target=lambda: 1 / 0, name="t")
thread.start()
thread.join()
""",
    "unraisable": """
class Odd:
    def __del__(self):
        raise ValueError("in __del__")
Odd()
""",
    "replaced_stdout": """
import io, sys
sys.stdout = io.StringIO()
sys.stderr = None
print("nowhere")
raise ValueError("nowhere")
""",
    "closed_stderr": "import os\nos.close(2)\nraise ValueError('unheard')\n",
    "input": "print(input('name? '), input())\ntry:\n    input()\nexcept EOFError:\n    print('end')\n",
    "warnings": "import warnings\nwarnings.warn('careful')\n",
    "segfault": "import ctypes, sys\nprint('before', flush=True)\nctypes.string_at(0)\n",
    "abort": "import os\nos.abort()\n",
    "kills_itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "terminates_itself": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "own_signal_handler": """
import os, signal
signal.signal(signal.SIGTERM, lambda number, frame: print("handled", number))
os.kill(os.getpid(), signal.SIGTERM)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGPIPE))
""",
    "broken_pipe": """
import os
reading, writing = os.pipe()
os.close(reading)
try:
    os.write(writing, b"x")
except BrokenPipeError:
    print("told")
""",
    "fork": """
import os, sys
if os.fork() == 0:
    print("child", flush=True)
    os._exit(3)
print("parent", os.waitstatus_to_exitcode(os.wait()[1]))
""",
    "fork_raises": """
import os
child = os.fork()
if child == 0:
    raise ValueError("in the child")
os.waitpid(child, 0)
raise KeyError("in the parent")
""",
    "environment": """
import os
print(sorted(key for key in os.environ if not key.startswith("CUDAGRAPH_DOCTOR") and key != "PYTHONPATH"))
""",
    "importlib": """
import importlib, importlib.util, json, sys
importlib.reload(json)
print(importlib.util.find_spec("json").origin == json.__file__, json.__loader__ is json.__spec__.loader)
""",
    "deep_exception_chain": """
error = None
for i in range(200):
    try:
        raise ValueError(i) from error
    except ValueError as caught:
        error = caught
error.__traceback__ = None
raise error
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_behaves_as_under_python(runner, name: str) -> None:
    path = runner.script(SCRIPTS[name].lstrip("\n"))
    runner.same("script", path.name, "--an-option", "two words", stdin=b"Ada\nL.\n")


def test_script_in_a_folder_finds_its_neighbours(runner) -> None:
    runner.script("VALUE = 3\n", "deep/neighbour.py")
    runner.script("import sys, neighbour\nprint(neighbour.VALUE, sys.path[0], __file__)\n", "deep/target.py")
    runner.same("script", "deep/target.py")


def test_folder_with_a_main_is_run(runner) -> None:
    runner.script("import sys\nprint(__name__, __spec__, sys.argv, sys.path[0])\n", "app/__main__.py")
    runner.same("script", "app")


def test_module_of_a_package(runner) -> None:
    runner.script("print('package')\n", "package/__init__.py")
    tool = "import sys\nprint(__name__, __spec__.name, __package__, sys.argv, sys.path[0])\n1 / 0\n"
    runner.script(tool, "package/tool.py")
    runner.same("module", "package.tool", "a", "-b")
    runner.script("import sys\nprint(__name__, __package__, sys.argv)\n", "package/__main__.py")
    runner.same("module", "package", "a")


def test_missing_module(runner) -> None:
    runner.same("module", "no_such_module_anywhere")


def test_code(runner) -> None:
    runner.same("code", "import sys; print(__name__, sys.argv, sys.path[0], __builtins__); 1 / 0", "a", "-c")


def test_script_from_standard_input(runner) -> None:
    runner.same("script", "-", "a", stdin=b"import sys\nprint(sys.argv, __name__)\nraise ValueError('x')\n")


def test_unreadable_script(runner) -> None:
    path = runner.script("print('secret')\n")
    path.chmod(0)
    runner.same("script", path.name)


def test_missing_script_is_a_usage_error(runner) -> None:
    launched = runner.launch({"kind": "script", "target": "missing.py"})
    assert launched.told["error"] == "UsageError"
    assert "missing.py" in launched.told["message"]


def test_python_options_of_the_environment_hold(runner) -> None:
    path = runner.script("import sys\nprint(sys.flags, sys.warnoptions, sys.path)\nassert False\n")
    options = {"PYTHONOPTIMIZE": "1", "PYTHONWARNINGS": "error", "PYTHONSAFEPATH": "1", "PYTHONPATH": "/somewhere:."}
    runner.same("script", path.name, **options)


def test_own_faulthandler_keeps_its_text(runner) -> None:
    path = runner.script("import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(0)\n")
    launched = runner.same("script", path.name)
    assert b"Fatal Python error" in launched.stderr


def test_faulthandler_of_the_environment_keeps_its_text(runner) -> None:
    path = runner.script("import ctypes\nctypes.string_at(0)\n")
    launched = runner.same("script", path.name, PYTHONFAULTHANDLER="1")
    assert b"Fatal Python error" in launched.stderr


def test_sitecustomize_that_stands_behind_ours_runs(runner) -> None:
    runner.script("import sys\nsys.site_was_here = True\nprint('mine', __name__, __file__)\n", "site/sitecustomize.py")
    path = runner.script("import sys, sitecustomize\nprint(sys.site_was_here, sitecustomize.__file__)\n")
    runner.same("script", path.name, PYTHONPATH=str(runner.folder / "site"))


def test_sitecustomize_that_fails_is_reported_as_ever(runner) -> None:
    runner.script("raise ValueError('broken site')\n", "site/sitecustomize.py")
    path = runner.script("print('runs')\n")
    launched = runner.same("script", path.name, PYTHONPATH=str(runner.folder / "site"))
    assert b"broken site" in launched.stderr
    assert launched.records


def test_sitecustomize_with_an_excepthook_is_wrapped(runner) -> None:
    hook = "import sys\nsys.excepthook = lambda kind, error, frames: print('theirs', error, frames.tb_lineno)\n"
    runner.script(hook, "site/sitecustomize.py")
    path = runner.script("raise ValueError('seen')\n")
    launched = runner.same("script", path.name, PYTHONPATH=str(runner.folder / "site"))
    assert [record["where"] for record in launched.of("exception")] == ["uncaught"]
