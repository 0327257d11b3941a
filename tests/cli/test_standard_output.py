"""The exit status does not depend on who reads, and a disk that is full is no traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

DOCTOR = [sys.executable, "-m", "cudagraph_doctor"]


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_left_does_not_change_the_status(traces, form):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*DOCTOR, "check", "--format", form, traces["broken"]], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert result.returncode == 1
    assert result.stderr == b""


def test_dump_into_a_pipe_whose_reader_left(traces):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([*DOCTOR, "dump", traces["broken"]], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert result.returncode == 0
    assert result.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_is_one_line_and_code_2(traces):
    result = shell(f"{' '.join(DOCTOR)} check {traces['broken']} > /dev/full")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "cudagraph-doctor: cannot write the report to standard output: No space left on device. Use --output FILE"
    ]


def test_a_closed_standard_output(traces):
    result = shell(f"{' '.join(DOCTOR)} check {traces['broken']} >&-")
    assert result.returncode == 1
    assert result.stderr == ""


@pytest.mark.parametrize("command", ["explain CGD101", "rules", "--help"])
def test_an_ascii_terminal_is_enough(command):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    result = subprocess.run([*DOCTOR, *command.split()], env=environment, capture_output=True, check=False)
    assert result.returncode == 0
    assert result.stdout.isascii()
