"""Ctrl-C and other signals: to the target once, then the report; the time limit; targets that do not want to end."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time

import pytest

from cudagraph_doctor.launch.descendants import find

# Counts its signals for a while after the first one.
COUNTER = """
import os, signal, sys, time
count = {}
def note(number, frame):
    count[number] = count.get(number, 0) + 1
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, note)
print("ready", flush=True)
end = time.time() + 20
while not count and time.time() < end:
    time.sleep(0.02)
time.sleep(0.6)
print({signal.Signals(k).name: v for k, v in count.items()}, flush=True)
sys.exit(11)
"""
STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time\\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"])
print("ready", child.pid, flush=True)
def stuck_here():
    time.sleep(60)
stuck_here()
"""


def start(runner, options: dict, prefix: list[str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*(prefix or []), *runner.driver(options)],
        cwd=runner.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=runner.environment(),
        start_new_session=True,
    )


def runs(pid: int) -> bool:
    """A process that is no zombie: in a container nobody may collect it."""
    found = find(pid)
    return found is not None and found.alive


def ready(process: subprocess.Popen[bytes]) -> list[str]:
    assert process.stdout is not None
    line = process.stdout.readline().decode().split()
    assert line[:1] == ["ready"], (line, process.stderr.read() if process.stderr else "")
    time.sleep(0.15)
    return line[1:]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signal_to_the_launcher_reaches_the_target_once(runner, number: signal.Signals) -> None:
    path = runner.script(COUNTER)
    process = start(runner, {"kind": "script", "target": path.name})
    ready(process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert stdout.decode() == str({number.name: 1}) + "\n", stderr.decode()
    assert runner.told().end["returncode"] == 11


def test_signal_to_the_launchers_group_reaches_the_target_once(runner) -> None:
    path = runner.script(COUNTER)
    process = start(runner, {"kind": "script", "target": path.name})
    ready(process)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=20)[0].decode() == "{'SIGTERM': 1}\n"


def test_timeout_command_reaches_the_target_once(runner) -> None:
    path = runner.script(COUNTER)
    process = start(runner, {"kind": "script", "target": path.name}, ["timeout", "2"])
    ready(process)
    assert process.communicate(timeout=20)[0].decode() == "{'SIGTERM': 1}\n"


def test_target_that_ends_by_ctrl_c_is_sealed_so(runner) -> None:
    path = runner.script("import time\nprint('ready', flush=True)\ntime.sleep(30)\n")
    process = start(runner, {"kind": "script", "target": path.name})
    ready(process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert stderr.decode().endswith("KeyboardInterrupt\n")
    launched = runner.told()
    assert launched.records[-1]["signal"] == "SIGINT"
    assert launched.of("exception")[0]["chain"][0]["type"] == "KeyboardInterrupt"


def test_ignored_signal_stays_ignored(runner) -> None:
    path = runner.script(
        "import signal\nprint('ready', flush=True)\nprint(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
    )
    process = start(runner, {"kind": "script", "target": path.name}, ["nohup"])
    assert b"True" in process.communicate(timeout=20)[0]


def test_second_ctrl_c_stops_the_wait(runner) -> None:
    path = runner.script(STUBBORN)
    process = start(runner, {"kind": "script", "target": path.name})
    (child,) = ready(process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    end = runner.told().end
    assert end["signal"] == "SIGKILL"
    assert end["stopped"] is True
    assert not runs(int(child))


def test_time_limit_ends_target_and_children_and_names_the_place(runner) -> None:
    path = runner.script(STUBBORN)
    began = time.monotonic()
    launched = runner.launch({"kind": "script", "target": path.name, "timeout": 1.5})
    assert time.monotonic() - began < 15
    assert launched.end["timed_out"] is True
    assert launched.records[-1]["timed_out"] is True
    assert launched.records[-1]["signal"] == "SIGKILL"
    assert "stuck_here" in launched.records[-1]["fault"]
    child = launched.stdout.split()[1].decode()
    assert not runs(int(child))


def test_time_limit_of_a_target_that_ends_in_time(runner) -> None:
    path = runner.script("print('quick')\n")
    launched = runner.launch({"kind": "script", "target": path.name, "timeout": 20})
    assert launched.end["timed_out"] is False


def test_target_that_signals_its_own_group(runner) -> None:
    path = runner.script(
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('once', flush=True))\n"
        "os.killpg(os.getpgrp(), signal.SIGTERM)\n"
        "import time\ntime.sleep(0.5)\n"
        "os.killpg(os.getpgrp(), signal.SIGKILL)\n"
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    assert launched.stdout == b"once\n"
    assert launched.end["signal"] == "SIGKILL"


# ── at a terminal ────────────────────────────────────────────────────────────────────────────────


class Terminal:
    """A session with a terminal of its own, in which the driver runs as a shell's foreground job would."""

    def __init__(self, runner, options: dict) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(runner.folder)
            command = runner.driver(options)
            os.execve(command[0], command, runner.environment())
        self.seen = b""

    def until(self, text: bytes, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:
                    break
        assert text in self.seen, self.seen

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def end(self) -> None:
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        os.close(self.fd)
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0


def test_terminal_is_the_targets(runner) -> None:
    path = runner.script(
        "import sys, os\nprint(sys.stdin.isatty(), sys.stdout.isatty(), os.tcgetpgrp(0) == os.getpgrp())\n"
        "print('hello', input('name? '))\n"
    )
    terminal = Terminal(runner, {"kind": "script", "target": path.name})
    terminal.until(b"name? ")
    terminal.type(b"Ada\n")
    terminal.until(b"hello Ada")
    terminal.end()
    assert b"True True True" in terminal.seen
    assert runner.told().end["returncode"] == 0


def test_ctrl_c_at_a_terminal_reaches_the_target_once(runner) -> None:
    path = runner.script(COUNTER)
    terminal = Terminal(runner, {"kind": "script", "target": path.name})
    terminal.until(b"ready")
    time.sleep(0.2)
    terminal.type(b"\x03")
    terminal.until(b"{'SIGINT': 1}")
    terminal.end()
    assert runner.told().end["returncode"] == 11


def test_kill_of_the_launcher_at_a_terminal_reaches_the_target_once(runner) -> None:
    path = runner.script(COUNTER)
    terminal = Terminal(runner, {"kind": "script", "target": path.name})
    terminal.until(b"ready")
    time.sleep(0.2)
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.until(b"{'SIGTERM': 1}")
    terminal.end()


def test_second_ctrl_c_at_a_terminal(runner) -> None:
    path = runner.script(STUBBORN)
    terminal = Terminal(runner, {"kind": "script", "target": path.name})
    terminal.until(b"ready")
    time.sleep(0.2)
    terminal.type(b"\x03")
    time.sleep(0.5)
    terminal.type(b"\x03")
    terminal.end()
    assert runner.told().end["stopped"] is True
