"""The target is not changed: same output, same exit status, same graphs node for node, with and without the recorder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.gpu

# Everything that plays with dispatch modes, compilation or autograd in a window.
MODES = sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "graph_dump")
HEALTHY = [
    path
    for path in sorted((ROOT / "fixtures" / "scripts" / "healthy").glob("*.py"))
    if "CUDAGraph" in path.read_text()
    or "make_graphed" in path.read_text()  # raw captures cannot be asked to keep theirs
]


@pytest.mark.parametrize("name", MODES)
def test_same_output_and_status(name, plain, recorded, tmp_path):
    script = SCRIPTS / f"{name}.py"
    before = plain(script)
    assert before.status == 0, before.err[-2000:]
    after = recorded(script)
    assert after.out == before.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["target"]["exit"]["returncode"] == 0
    assert [f["rule"] for f in report["findings"] if f["level"] != "note"] == []


def graphs(folder: Path) -> list[str]:
    """The dumps of a run: kernels, launch configurations and edges, no addresses."""
    return [path.read_text() for path in sorted(folder.glob("*.txt"))]


@pytest.mark.parametrize("script", HEALTHY, ids=lambda path: path.stem)
def test_same_graph_node_for_node(script, plain, recorded, tmp_path):
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    dump = SCRIPTS / "graph_dump.py"
    assert plain(dump, tmp_path / "without", script).status == 0
    recorded(dump, tmp_path / "with", script)
    without, with_ = graphs(tmp_path / "without"), graphs(tmp_path / "with")
    assert without, "the script captured nothing: it proves nothing"
    assert with_ == without
