"""Eight threads capture, launch, allocate, load libraries, and the process forks: no lost record, no race, no deadlock."""

import collections
import json
import os
import subprocess

import pytest

FLAGS = {
    "plain": (),
    "address": ("-fsanitize=address,undefined", "-fno-omit-frame-pointer"),
    "thread": ("-fsanitize=thread",),
}
SECONDS = float(os.environ.get("CGD_STRESS_SECONDS", "2"))


@pytest.mark.parametrize("name", FLAGS)
def test_stress(name, build_with, tmp_path):
    made = build_with(tmp_path, *FLAGS[name])
    trace = tmp_path / "trace.jsonl"
    command = [made.stress, made.probe, made.cupti, made.cuda, trace, str(SECONDS)]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=60 + SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert not done.stderr, done.stderr[-3000:]
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    numbers = [r["q"] for r in records]
    assert len(set(numbers)) == len(numbers), "a number was drawn twice"
    # Which calls on a second stream fall into a window is chance; they are few, and counted apart.
    chance = [
        r for r in records if r.get("api", "").startswith(("cuStream", "cuGraphLaunch")) and "Capture" not in r["api"]
    ]
    told = [r for r in records if r["k"] not in ("stack", "source", "context") and r not in chance]
    assert len(told) == int(done.stdout)
    sizes = collections.Counter(r.get("size") for r in records if r["k"] == "call")
    assert not sizes[999999], "a forked child wrote into its parent's trace"
    assert not sizes[888888], "a call after the release was recorded"
    changes = [r for r in records if r["k"] == "capture-status"]
    calls = {r["q"]: r for r in records if r["k"] == "call"}
    assert changes
    assert all(calls[r["across"]]["api"] == "cuMemAlloc_v2" for r in changes)
