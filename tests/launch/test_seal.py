"""The last records of a trace, written when its process is gone."""

from __future__ import annotations

import errno
import json
import os
import struct

import pytest

from cudagraph_doctor.launch.options import TargetEnd
from cudagraph_doctor.launch.seal import seal, trace_files
from cudagraph_doctor.launch.seal_run import seal_run
from cudagraph_doctor.launch.watch import Watched

HEADER = b'{"k":"header","q":1,"t":1,"format":"cudagraph-doctor-trace","version":[1,0],"pid":%d,"wall":1}\n'
DEAD = 4_000_000  # above the largest process id that Linux gives by default


def trace(folder, *lines: bytes, pid: int = DEAD, start: int = 7):
    path = folder / f"host-name-{pid}-{start}-abcdef01.jsonl"
    path.write_bytes(HEADER % pid + b"".join(lines))
    (file,) = [file for file in trace_files(str(folder)) if file.pid == pid]
    return file


def records(file) -> list[dict]:
    with open(file.path, "rb") as opened:
        return [json.loads(line) for line in opened if line.startswith(b'{"k') and line.endswith(b"}\n")]


def test_seal_tells_the_end(tmp_path) -> None:
    file = trace(tmp_path)
    seal(file, TargetEnd(signal="SIGSEGV", core=True, rss=123, user=1.5))
    last = records(file)[-1]
    assert last.items() >= {"k": "seal", "q": 2, "signal": "SIGSEGV", "core": True, "rss": 123, "user": 1.5}.items()


def test_end_that_nobody_saw_is_not_made_up(tmp_path) -> None:
    file = trace(tmp_path)
    seal(file, None)
    assert records(file)[-1].keys() == {"k", "q", "t"}


def test_second_seal_changes_nothing(tmp_path) -> None:
    file = trace(tmp_path)
    seal(file, TargetEnd(returncode=0))
    with open(file.path, "rb") as opened:
        before = opened.read()
    seal(file, TargetEnd(returncode=1))
    with open(file.path, "rb") as opened:
        assert opened.read() == before


@pytest.mark.parametrize("garbage", [b'{"k":"log","q":9,"t', b"\x00\xff\x00", b"[1,2", b'{"k":"log","q":"x"}'])
def test_torn_end_gets_a_line_of_its_own(tmp_path, garbage: bytes) -> None:
    file = trace(tmp_path, b'{"k":"log","q":41,"t":2,"message":"x"}\n', garbage)
    seal(file, TargetEnd(returncode=0))
    assert [record["q"] for record in records(file) if record["k"] in {"log", "seal"}][-1] == 42
    assert records(file)[-1]["torn"] is True


def test_slots_and_losses_become_records_and_files_go(tmp_path) -> None:
    file = trace(tmp_path)
    units = [(0, 5, 28, 1, 0, 0, 0, 0), (3, 10, 9, 77, 2, 55, 0, 0)]
    with open(file.beside(".slots"), "wb") as slots:
        slots.write(b"".join(struct.pack("<8Q", *unit) for unit in units) + bytes(64 * 20))
    with open(file.beside(".fault"), "w") as fault:
        fault.write("Fatal Python error: Segmentation fault\n" + "x" * 20_000)
    lost = seal(file, TargetEnd(signal="SIGSEGV"))
    assert lost is not None
    assert lost.count == 5
    header, told, replay, end = records(file)
    assert told.items() >= {"k": "lost", "count": 5, "why": os.strerror(28)}.items()
    assert replay.items() >= {"k": "replay", "exec": 3, "count": 10, "done": 9, "t": 77, "tid": 55}.items()
    assert end["fault"].startswith("Fatal Python error")
    assert len(end["fault"]) <= 8000
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"]
    assert [record["q"] for record in (header, told, replay, end)] == [1, 2, 3, 4]


def test_files_of_others_in_the_folder_are_left_alone(tmp_path) -> None:
    for name in ("notes.jsonl", "a-b-c-d.jsonl", "report.json"):
        (tmp_path / name).write_text("mine")
    empty = tmp_path / f"host-{DEAD}-1-00.jsonl"
    empty.write_text("")
    sealed = seal_run(str(tmp_path), Watched(1, TargetEnd(returncode=0)))
    assert sealed.files == ()
    assert {path.read_text() for path in tmp_path.iterdir()} == {"mine", ""}


def test_process_that_still_runs_is_not_sealed(tmp_path) -> None:
    from cudagraph_doctor.launch.descendants import find

    mine = find(os.getpid())
    running = trace(tmp_path, pid=mine.pid, start=mine.start)
    gone = trace(tmp_path)
    other_life = trace(tmp_path, pid=1, start=0)
    seal_run(str(tmp_path), Watched(DEAD, TargetEnd(returncode=3)))
    assert records(running)[-1]["k"] == "header"
    assert records(gone)[-1]["returncode"] == 3
    assert records(other_life)[-1].keys() == {"k", "q", "t"}


def test_file_that_cannot_be_completed_is_one_note(tmp_path, monkeypatch) -> None:
    trace(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cudagraph_doctor.launch.seal_run.seal", refuse)
    (note,) = seal_run(str(tmp_path), Watched(DEAD, TargetEnd(returncode=0))).notes
    assert "No space left on device" in note
    assert "\n" not in note


def test_reason_of_an_empty_trace_is_told(tmp_path) -> None:
    """A full disk took not even the header: the shared memory beside it knows why."""
    name = f"host-name-{DEAD}-7-abcdef01"
    (tmp_path / f"{name}.jsonl").touch()
    (tmp_path / f"{name}.slots").write_bytes(struct.pack("<8Q", 0, 12, errno.ENOSPC, 0, 0, 0, 0, 0))
    sealed = seal_run(str(tmp_path), Watched(DEAD, TargetEnd(returncode=0)))
    assert (sealed.files, sealed.why_empty) == ((), os.strerror(errno.ENOSPC))
