"""Work that nothing orders against a replay is told by the simulated device, with both lines; ordered work is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.reader import TraceReader

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated device needs Linux"),
]

BEGIN = """\
import torch

x = torch.zeros(1000, device="cuda")
side = torch.cuda.Stream()
x * 2
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * 2
torch.cuda.synchronize()
"""
INPUT = (
    BEGIN
    + """\
with torch.cuda.stream(side):
    x.fill_(3)  # first
{order}
g.replay()  # second
"""
)
OUTPUT = (
    BEGIN
    + """\
g.replay()  # first
{order}
with torch.cuda.stream(side):
    z = y + 1  # second
"""
)
NEXT_INPUT = (
    BEGIN
    + """\
g.replay()  # first
{order}
with torch.cuda.stream(side):
    x.fill_(4)  # second
"""
)
PINNED = """\
import torch

staging = torch.zeros(1000).pin_memory()
x = torch.zeros(1000, device="cuda")
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    x.copy_(staging, non_blocking=True)
g.replay()  # first
{order}
staging.fill_(2)
torch.cuda.synchronize()  # second
"""
POOL = """\
import torch

pool = torch.cuda.graph_pool_handle()
x = torch.zeros(1000, device="cuda")
graphs = []
for _ in range(2):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool):
        y = (x + 1) * 2
    graphs.append(g)
torch.cuda.synchronize()
graphs[0].replay()  # first
{order}
with torch.cuda.stream(torch.cuda.Stream()):
    graphs[1].replay()  # second
"""
CASES = {
    "input": (INPUT, "read after unordered write", ("aten::fill_", "cuGraphLaunch")),
    "output": (OUTPUT, "read after unordered write", ("cuGraphLaunch", "aten::add")),
    "next input": (NEXT_INPUT, "write after unordered read", ("cuGraphLaunch", "aten::fill_")),
    "pinned": (PINNED, "host wrote the pinned source of a copy before waiting for it", ("cuGraphLaunch",) * 2),
    "pool": (POOL, "write after unordered write", ("cuGraphLaunch",) * 2),
}


@pytest.fixture(autouse=True)
def needs_torch():
    pytest.importorskip("torch")


@pytest.fixture
def recorded(tmp_path):
    """Function: the records that a script leaves when it runs on the simulated device."""

    def run(source: str) -> list[events.Record]:
        script, folder = tmp_path / "races.py", tmp_path / f"trace{len(list(tmp_path.iterdir()))}"
        script.write_text(source)
        command = [sys.executable, "-m", "cudagraph_doctor", "run", "--device", "sim", "--trace", str(folder)]
        done = subprocess.run([*command, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
        (path,) = folder.rglob("*.jsonl")
        records = list(TraceReader(path))
        assert any(isinstance(record, events.Replay) for record in records), done.stderr
        return records

    return run


@pytest.mark.parametrize("name", CASES)
def test_unordered_access_is_told_with_both_lines(name, recorded):
    source, what, names = CASES[name]
    text = source.format(order="")
    records = recorded(text)
    races = [record for record in records if isinstance(record, events.Race)]
    assert [race.what for race in races[:1]] == [what]
    script = next(r.id for r in records if isinstance(r, events.Source) and r.path.endswith("races.py"))
    stacks = {record.id: record.frames for record in records if isinstance(record, events.Stack)}
    assert (races[0].first_name, races[0].name) == names
    lines = [
        next(frame[1] for frame in stacks[stack] if frame[0] == script)
        for stack in (races[0].first_stack, races[0].stack)
    ]
    marked = [1 + text[: text.index(mark)].count("\n") for mark in ("# first", "# second")]
    assert lines == marked
    assert races[0].size >= 4000


@pytest.mark.parametrize("name", CASES)
def test_order_is_seen(name, recorded):
    source, _, _ = CASES[name]
    records = recorded(source.format(order="torch.cuda.synchronize()"))
    assert not [record for record in records if isinstance(record, events.Race)]
    if name in {"input", "output", "next input"}:
        current = "torch.cuda.current_stream()"
        wait = f"{current}.wait_stream(side)" if name == "input" else f"side.wait_stream({current})"
        records = recorded(source.format(order=wait))
        assert not [record for record in records if isinstance(record, events.Race)]


def test_external_event_in_the_graph_is_an_order(recorded):
    source = INPUT.replace("with torch.cuda.graph(g):\n", "with torch.cuda.graph(g):\n    {wait}\n").replace(
        "x.fill_(3)  # first", "x.fill_(3)\n    ready.record(side)"
    )
    source = source.replace("x * 2\n", "ready = torch.cuda.Event(external=True)\nready.record()\n", 1)
    for wait, races in (("torch.cuda.current_stream().wait_event(ready)", 0), ("pass", 1)):
        records = recorded(source.format(order="", wait=wait))
        assert sum(isinstance(record, events.Race) for record in records) == races
