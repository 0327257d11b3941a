"""Python children get a trace of their own, whatever way they were started."""

from __future__ import annotations

import os
import signal
import sys

import pytest

RECORD = """
from cudagraph_doctor.probe import bootstrap
def record(text):
    recorder = bootstrap.current()  # none where the script runs as it is
    return recorder and recorder.context.write("log", message=text)
"""

MULTIPROCESSING = (
    RECORD
    + """
import multiprocessing, os, sys
def work(number):
    record(f"work {number}")
    return number * 2

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(work, range(4)))
    record("main")
"""
)


def logs(launched) -> list[list[str]]:
    return [[r["message"] for r in records if r["k"] == "log"] for records in launched.all_records]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(runner, method: str) -> None:
    path = runner.script(MULTIPROCESSING)
    launched = runner.same("script", path.name, method)
    assert logs(launched)[0] == ["main"]
    assert sorted(message for log in logs(launched)[1:] for message in log) == [f"work {i}" for i in range(4)]
    assert all(records[-1]["k"] == "seal" for records in launched.all_records)
    assert len({records[0]["pid"] for records in launched.all_records}) == len(launched.all_records)
    assert {records[0]["run"] for records in launched.all_records} == {launched.records[0]["run"]}


def test_fork_begins_a_file_of_its_own(runner) -> None:
    path = runner.script(
        RECORD
        + """
import os
record("before")
slot = bootstrap.current().context.slots.open(1)
slot[1] = slot[2] = 5
child = os.fork()
if child == 0:
    record("child")
    slot[1] += 2
    slot[2] += 1
    os._exit(0)
os.waitpid(child, 0)
record("after")
"""
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    parent, child = launched.all_records
    assert logs(launched) == [["before", "after"], ["child"]]
    assert child[0]["how"] == "fork"
    assert child[0]["ppid"] == parent[0]["pid"]
    assert child[0]["parent"].startswith(f"{parent[0]['host']}-{parent[0]['pid']}-")
    assert child[0]["q"] == 1
    assert [(r["count"], r["done"]) for r in parent if r["k"] == "replay"] == [(5, 5)]
    assert [(r["count"], r["done"]) for r in child if r["k"] == "replay"] == [(2, 1)]
    assert [r["name"] for r in child if r["k"] == "capability"] == [r["name"] for r in parent if r["k"] == "capability"]


def test_fork_in_a_thread_with_others_writing(runner) -> None:
    path = runner.script(
        RECORD
        + """
import os, threading
stop = threading.Event()
def busy():
    while not stop.is_set():
        record("busy")
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads: thread.start()
children = []
for i in range(5):
    child = os.fork()
    if child == 0:
        for _ in range(50): record("child")
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
stop.set()
for thread in threads: thread.join()
"""
    )
    launched = runner.launch({"kind": "script", "target": path.name})
    assert launched.status == 0
    assert logs(launched)[1:] == [["child"] * 50] * 5
    assert set(logs(launched)[0]) == {"busy"}


def test_subprocess_is_followed_and_shown(runner) -> None:
    code = "import time; time.sleep(0.5)"
    path = runner.script(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    parent, child = launched.all_records
    assert child[0]["how"] == "child"
    assert child[0]["ppid"] == parent[0]["pid"]
    (process,) = [record for record in parent if record["k"] == "process"]
    assert (process["child"], process["how"], process.get("followed", True)) == (child[0]["pid"], "subprocess", True)


def test_command_that_is_no_python(runner) -> None:
    runner.script(RECORD + "record('below')\nimport sys\nprint(sys.argv)\n")
    arguments = ["-c", f"'{sys.executable}' target.py a; exit 3"]
    launched = runner.launch({"kind": "command", "target": "sh", "arguments": arguments, "python": None})
    assert launched.stdout == b"['target.py', 'a']\n"
    assert launched.status == 3
    assert logs(launched) == [["below"]]


def test_missing_command(runner) -> None:
    launched = runner.launch({"kind": "command", "target": "no-such-command-anywhere", "python": None})
    assert launched.told["error"] == "TargetError"


def test_daemon_that_leaves_the_tree_is_not_waited_for(runner) -> None:
    path = runner.script(
        """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3): os.dup2(null, fd)
        time.sleep(20)
    os._exit(0)
time.sleep(0.3)
print("main ends", flush=True)
"""
    )
    launched = runner.launch({"kind": "script", "target": path.name}, timeout=15)
    assert launched.end["seconds"] < 10
    (note,) = launched.told["notes"]
    assert "still running" in note
    os.kill(int(note.rsplit(" ", 1)[1]), signal.SIGKILL)


def test_child_without_our_environment_is_told_of(runner) -> None:
    path = runner.script("import subprocess\nsubprocess.run(['sleep', '0.6'], env={'PATH': '/usr/bin:/bin'})\n")
    launched = runner.launch({"kind": "script", "target": path.name})
    (process,) = launched.of("process")
    assert process["followed"] is False
    assert process["why"]
    assert process["argv"] == ["sleep", "0.6"]


def test_recorded_in_a_recorded_run(runner) -> None:
    """The launcher below a launcher: each run has its own folder."""
    path = runner.script(RECORD + "record('inner')\n")
    outer = runner.script(
        f"""
from cudagraph_doctor import launch
import sys
options = launch.LaunchOptions(
    kind="script", target={path.name!r}, trace="inner", python=sys.executable, need_torch=False
)
launch.run(options)
""",
        "outer.py",
    )
    launched = runner.launch({"kind": "script", "target": outer.name})
    assert logs(launched) == [[]]
    assert len(list((runner.folder / "inner").glob("*.jsonl"))) == 1
