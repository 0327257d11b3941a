"""What the recorder writes of memory and nodes, on the simulated device."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

KEEPS_ITS_LINE = """
import torch
x = torch.zeros(64, device="cuda")
w = torch.ones(64, device="cuda")
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * w + 1
g.replay()
del w  # gone
g.replay()
torch.cuda.synchronize()
"""


@pytest.fixture
def sim(tmp_path):
    """Function: run source text recorded; (status, stdout, stderr of the target and the launcher, records)."""

    def run(source):
        script, trace = tmp_path / "script.py", tmp_path / "trace"
        script.write_text(source)
        command = [sys.executable, "-m", "cudagraph_doctor", "run", "--device", "sim", "--allow-no-capture"]
        command += ["--format", "json", "--output", str(tmp_path / "report.json"), "--trace", str(trace), str(script)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        lines = [line for file in trace.glob("*.jsonl") for line in file.read_text().splitlines()]
        return done.returncode, done.stdout, done.stderr, [json.loads(line) for line in lines]

    return run


def _of(records, kind):
    return [record for record in records if record["k"] == kind]


def test_a_freed_input_is_told_with_its_line(sim):
    _, _, _, records = sim(KEEPS_ITS_LINE)
    assert not _of(records, "probe-error")
    outside = [one for one in _of(records, "storage") if not one.get("inside")]
    assert [(one["pool"], one["size"]) for one in outside] == [("general", 256), ("general", 256)]
    (free,) = _of(records, "free")
    assert (free["id"], free["replay"], free["now"]) == (outside[1]["id"], 2, "cached")
    assert "noticed" not in free
    stack = next(one for one in _of(records, "stack") if one["id"] == free["stack"])
    assert KEEPS_ITS_LINE.splitlines()[stack["frames"][0][1] - 1].startswith("del w")


def test_nodes_name_their_operators_and_addresses(sim):
    _, _, _, records = sim(KEEPS_ITS_LINE)
    (graph,) = _of(records, "graph")
    nodes, edges, ops = (
        _of(records, "node"),
        _of(records, "edge"),
        {one["q"]: one["name"] for one in _of(records, "op")},
    )
    assert (graph["nodes"], graph["edges"], len(edges)) == (2, 1, 1)
    assert [ops[node["op"]] for node in nodes] == ["aten::mul", "aten::add"]
    addresses = {one["ptr"] for one in _of(records, "storage") if not one.get("inside")}
    assert addresses <= set(nodes[0]["ptrs"])


def test_memory_that_stays_is_not_told(sim):
    _, _, _, records = sim(KEEPS_ITS_LINE.replace("del w  # gone", "w.add_(1)"))
    assert not _of(records, "free")
    assert not _of(records, "rewrite")
