"""Driver evidence on a real device: nothing is added or changed, the target's profiler works, nothing deadlocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = HERE / "native_scripts"
DUMP = HERE / "scripts" / "graph_dump.py"
HEALTHY = [
    path
    for path in sorted((HERE.parents[1] / "fixtures" / "scripts" / "healthy").glob("*.py"))
    if "CUDAGraph" in path.read_text()
    or "make_graphed" in path.read_text()  # raw captures cannot be asked to keep theirs
]

pytestmark = pytest.mark.gpu


def records(folder: Path, kind: str) -> list[dict]:
    lines = [line for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["k"] == kind]


@pytest.fixture
def driver(recorded, tmp_path):
    """A run with driver evidence; skips where it cannot be had, with the recorder's own reason."""

    def run(*arguments):
        outcome = recorded("--evidence", "driver", *arguments)
        for capability in records(tmp_path / "trace", "capability"):
            if capability["name"] == "driver" and capability["state"] == "unavailable":
                pytest.skip(capability["why"])
        return outcome

    return run


@pytest.mark.parametrize("script", HEALTHY, ids=lambda path: path.stem)
def test_same_graph_and_output(script, plain, driver, tmp_path):
    dumps = []
    outputs = []
    for name, run in (("without", plain), ("with", driver)):
        (tmp_path / name).mkdir()
        outputs.append(run(DUMP, tmp_path / name, script).out)
        dumps.append([path.read_text() for path in sorted((tmp_path / name).glob("*.txt"))])
    assert dumps[0], "the script captured nothing: it proves nothing"
    assert dumps[0] == dumps[1]
    assert outputs[0] == outputs[1]
    assert records(tmp_path / "trace", "call")


def test_profiles_are_complete(plain, driver, tmp_path):
    script = SCRIPTS / "profile_twice.py"
    before, after = plain(script), driver(script)
    assert before.status == 0, before.err[-2000:]
    counts = [int(line.split()[1]) for line in before.out.splitlines() if line.startswith(("first", "second"))]
    assert len(counts) == 2
    assert all(counts)
    assert after.out == before.out
    [given] = records(tmp_path / "trace", "hand-over")
    assert given["to"] == "torch.profiler"
    assert [record["level"] for record in records(tmp_path / "trace", "evidence")] == ["python", "driver", "python"]


@pytest.mark.slow
def test_stress(driver, tmp_path):
    outcome = driver(SCRIPTS / "stress.py", 60)
    assert outcome.status == 0, outcome.err[-3000:]
    assert outcome.out == "no error\n"
    assert records(tmp_path / "trace", "call")
    assert not records(tmp_path / "trace", "lost")
    assert not records(tmp_path / "trace", "probe-error")
