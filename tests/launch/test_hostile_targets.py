"""Targets that take the recorder's file away, or die: every record stays, and no file of theirs is written to."""

from __future__ import annotations

import os

import pytest

# Writes records through the recorder of its own process, as a hook would.
RECORD = """
from cudagraph_doctor.probe import bootstrap
def record(text):
    recorder = bootstrap.current()  # none where the script runs as it is
    return recorder and recorder.context.write("log", message=text)
"""

DEATHS = {
    "segfault": ("import ctypes\nctypes.string_at(0)", {"signal": "SIGSEGV"}),
    "abort": ("import os\nos.abort()", {"signal": "SIGABRT"}),
    "kill": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", {"signal": "SIGKILL"}),
    "exit": ("import os\nos._exit(4)", {"returncode": 4}),
    "clean": ("", {"returncode": 0}),
}


def messages(launched) -> list[str]:
    return [record["message"] for record in launched.of("log")]


@pytest.mark.parametrize("death", DEATHS)
def test_every_record_survives(runner, death: str) -> None:
    code, end = DEATHS[death]
    path = runner.script(RECORD + "for i in range(500):\n    record(str(i))\n" + code)
    launched = runner.launch({"kind": "script", "target": path.name})
    assert messages(launched) == [str(i) for i in range(500)]
    seal = launched.records[-1]
    assert seal["k"] == "seal"
    assert {key: seal.get(key) for key in end} == end


def test_sequence_numbers_rise_and_none_is_drawn_twice(runner) -> None:
    threads = """
import threading
def work():
    for i in range(300):
        record(str(i))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    path = runner.script(RECORD + threads)
    launched = runner.launch({"kind": "script", "target": path.name})
    numbers = [record["q"] for record in launched.records]
    assert len(messages(launched)) == 2400
    assert len(set(numbers)) == len(numbers)
    assert len({record["tid"] for record in launched.of("log")}) == 8


def test_the_fatal_place_is_in_the_seal(runner) -> None:
    path = runner.script("import ctypes\ndef fatal_function():\n    ctypes.string_at(0)\nfatal_function()\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    assert "fatal_function" in launched.records[-1]["fault"]
    assert b"Fatal Python error" not in launched.stderr


CLOSERS = {
    "closerange": "os.closerange(3, 4096)",
    "close_all": "for fd in map(int, os.listdir('/proc/self/fd')):\n"
    "    if fd > 2 and os.path.exists(f'/proc/self/fd/{fd}'): os.close(fd)",
    "nothing": "",
}


@pytest.mark.parametrize("closer", CLOSERS)
def test_closed_descriptors(runner, closer: str) -> None:
    path = runner.script(RECORD + f"import os\nrecord('before')\n{CLOSERS[closer]}\nrecord('after')\nrecord('again')\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    assert launched.status == 0, launched.stderr
    assert messages(launched) == ["before", "after", "again"]


def test_another_file_on_our_number_is_never_written_to(runner) -> None:
    path = runner.script(
        RECORD
        + """
import os
record("before")
theirs = os.open("theirs.txt", os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(theirs, b"theirs")
number = bootstrap.current().writer._file.fd
for fd in range(3, number + 50):
    if fd != theirs:
        os.dup2(theirs, fd)
for i in range(20):
    record("after")
"""
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    assert launched.status == 0, launched.stderr
    assert (runner.folder / "theirs.txt").read_text() == "theirs"
    assert messages(launched) == ["before"] + ["after"] * 20


@pytest.mark.parametrize("ending", ["record('after')", "pass"])
def test_deleted_trace_folder(runner, ending: str) -> None:
    path = runner.script(RECORD + f"import shutil\nrecord('before')\nshutil.rmtree('trace')\n{ending}\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    assert messages(launched) == (["before", "after"] if ending != "pass" else ["before"])
    assert launched.records[-1]["k"] == "seal"


def test_deleted_trace_folder_and_closed_descriptors(runner) -> None:
    path = runner.script(
        RECORD
        + """
import os, shutil, time
record('before')
shutil.rmtree('trace')
os.closerange(3, 4096)
record('lost')
time.sleep(1.1)
record('after')
record('last')
"""
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    assert messages(launched)[-1] == "last"
    assert launched.records[0]["k"] == "header"
    assert launched.of("lost")[0]["count"] >= 1


def test_changed_directory(runner) -> None:
    path = runner.script(RECORD + "import os\nos.chdir('/')\nrecord('elsewhere')\n")
    launched = runner.launch({"kind": "script", "target": path.name, "trace": "trace"})
    assert messages(launched) == ["elsewhere"]


def test_torn_last_line_is_mended(runner) -> None:
    path = runner.script(
        RECORD + "import os\nrecord('whole')\n"
        'os.write(bootstrap.current().writer._file.fd, b\'{"k":"log","q":\')\nos._exit(0)\n'
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    assert messages(launched) == ["whole"]
    assert launched.records[-1]["k"] == "seal"
    assert launched.records[-1]["torn"] is True


def test_read_only_folder(runner) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (runner.folder / "trace").mkdir(mode=0o500)
    path = runner.script("print('runs')\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    assert launched.stdout == b"runs\n"
    assert launched.told["error"] == "TargetError"


def test_folder_that_cannot_be_made(runner) -> None:
    path = runner.script("print('runs')\n")
    launched = runner.launch({"kind": "script", "target": path.name, "trace": "/proc/no/such"})
    assert launched.stdout == b"runs\n"
    assert launched.stderr == b""
    assert launched.told["error"] == "TargetError"
    assert "/proc/no/such" in launched.told["message"]
    assert "\n" not in launched.told["message"]


def test_full_disk(runner) -> None:
    """The limit of file sizes stands in for a full disk: writes are cut short, then refused."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    path = runner.script(RECORD + limit + "for i in range(5000):\n    record(str(i))\nprint('runs')\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    assert launched.stdout == b"runs\n"
    assert launched.stderr == b""
    assert launched.records[-1]["k"] == "seal"
    kept, (lost,) = len(messages(launched)), launched.of("lost")
    assert 5000 <= kept + lost["count"] <= 5002  # a record or two of the recorder's own
    assert "could not be written" in launched.told["notes"][0]


def test_replay_slots_survive_sigkill(runner) -> None:
    path = runner.script(
        RECORD
        + """
import os, signal
slot = bootstrap.current().context.slots.open(7)
for _ in range(41):
    slot[1] += 1
    slot[2] += 1
slot[1] += 1
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    (replay,) = launched.of("replay")
    assert (replay["exec"], replay["count"], replay["done"], replay["total"]) == (7, 42, 41, True)
    assert not list((runner.folder / "trace").glob("*.slots"))


def test_recorder_that_cannot_start_lets_the_target_run(runner) -> None:
    path = runner.script(
        "import os, subprocess, sys\nos.environ['CUDAGRAPH_DOCTOR_CONFIG'] = 'not json'\n"
        "print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True))\n"
    )
    runner.same("script", path.name)
