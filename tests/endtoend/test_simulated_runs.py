"""The whole way of a simulated run: `cudagraph-doctor run --device sim` on scripts whose headers say what is true of them.

One faulty script for each rule that the simulated device can decide, and healthy ones. Each test is one process tree;
under pytest-xdist they run beside each other.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "fixtures" / "scripts"

FAULTY = (
    "host_sync_branch_on_sign_bad.py",  # CGD101
    "h2d_list_index_in_dict_bad.py",  # CGD102
    "query_current_stream_bad.py",  # CGD103
    "query_captured_event_later_bad.py",  # CGD103, after the capture
    "other_thread_device_sync_bad.py",  # CGD104
    "alloc_raw_free_bad/main.py",  # CGD105, cuda-bindings
    "finalizer_in_automatic_gc_bad.py",  # CGD106
    "rng_seed_in_forward_bad.py",  # CGD107
    "nested_graphed_callable_bad.py",  # CGD108
    "fork_two_join_one_bad.py",  # CGD109
    "wait_merges_captures_bad.py",  # CGD110
    "end_called_twice_bad.py",  # CGD111
    "legacy_stream_memset_bad.py",  # CGD112
    "not_captured_default_stream_clear_bad.py",  # CGD113
    "stale_autograd_last_loss_bad.py",  # CGD114
    "hidden_error_masked_by_finally_bad.py",  # CGD116
    "empty_graph_model_on_cpu_bad.py",  # CGD117
    "not_capturable_rmsprop_bad/main.py",  # CGD118
)
HEALTHY = (
    "cpu_mask_index.py",
    "pinned_allocation_on_capturing_thread.py",
    "raw_runtime_capture.py",
    "graphed_training_step.py",
    "two_threads_capture_at_once.py",
)
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated device needs Linux"),
]


@pytest.fixture(autouse=True)
def needs_torch():
    pytest.importorskip("torch")


def places(report):
    return [
        (finding["rule"], Path(finding["location"]["file"]).name, finding["location"]["line"])
        for finding in report["findings"]
        if finding["location"] is not None
    ]


@pytest.mark.parametrize("name", FAULTY)
def test_first_finding_has_the_rule_and_line_of_the_header(name, blanked, diagnose):
    script, expected = blanked(SCRIPTS / "capture_status" / name)
    status, report = diagnose(script)
    assert status == (1 if report["findings"][0]["level"] == "error" else 0)
    rule, file, line = places(report)[0]
    assert rule in expected["rules"]
    assert [file, line] in expected["places"]
    assert not [limit for limit in report["limits"] if limit["incomplete"]]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_script_is_clean_as_on_the_gpu(name, blanked, diagnose):
    script, _ = blanked(SCRIPTS / "healthy" / name)
    status, report = diagnose(script)
    assert status == 0
    assert [f for f in report["findings"] if f["level"] in {"error", "warning"}] == []
    assert report["captures"]


def test_library_initialisation_is_not_checked_and_says_why(blanked, diagnose):
    script, _ = blanked(SCRIPTS / "capture_status" / "library_cusolver_first_use_bad.py")
    _, report = diagnose(script)
    states = {state["rule"]: state for checker in report["checkers"] for state in checker["rules"]}
    assert states["CGD115"]["state"] == "not_checked"
    assert "libraries" in states["CGD115"]["reason"]


OBSTACLES = """\
import torch

x = torch.randn(8, 8, device="cuda")
table = torch.ones(8)
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x @ x
    print("sum", y.sum().item())
    y = y + table.to("cuda")
    torch.cuda.current_stream().query()
"""


def test_keep_going_lists_every_obstacle_of_a_region(tmp_path, diagnose):
    script = tmp_path / "obstacles.py"
    script.write_text(OBSTACLES)
    _, alone = diagnose(script)
    assert [(rule, line) for rule, _, line in places(alone)] == [("CGD101", 9)]
    status, report = diagnose(script, "--keep-going")
    assert status == 1
    assert sorted((rule, line) for rule, _, line in places(report)) == [("CGD101", 9), ("CGD102", 10), ("CGD103", 11)]


COMPILED_ALONE = """\
import torch

f = torch.compile(lambda x: x * 2)
assert f(torch.ones(3, device="cuda")).tolist() == [2, 2, 2]
"""
COMPILED_IN_REGION = """\
import torch

f = torch.compile(lambda x: x * 2)
x = torch.ones(3, device="cuda")
f(x)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = f(x)
g.replay()
"""
NOT_SIMULATED = """\
import torch

x = torch.randn(8, 8, device="cuda")
x @ x
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x @ x
    torch.ops.aten._cudnn_rnn_flatten_weight([x, x], 2, 8, 0, 2, 8, 1, False, False)
"""


@pytest.mark.parametrize(
    ("source", "status", "what", "line", "incomplete"),
    [
        (COMPILED_ALONE, 5, "torch.compile", 3, False),
        (COMPILED_IN_REGION, 4, "torch.compile", 8, True),
        (NOT_SIMULATED, 4, "aten::_cudnn_rnn_flatten_weight", 8, True),
    ],
)
def test_what_is_not_simulated_is_a_limit_with_its_line(source, status, what, line, incomplete, tmp_path, diagnose):
    script = tmp_path / "limits.py"
    script.write_text(source)
    returned, report = diagnose(script)
    assert returned == status
    placed = [limit for limit in report["limits"] if limit["location"]]
    assert (what, line, incomplete) in [(one["what"], one["location"]["line"], one["incomplete"]) for one in placed]


def test_two_devices_and_no_third(tmp_path, diagnose):
    script = tmp_path / "devices.py"
    script.write_text(
        "import torch\n"
        "assert torch.cuda.device_count() == 2\n"
        "with torch.cuda.device(1):\n"
        "    x = torch.ones(3, device='cuda')\n"
        "    torch.cuda.synchronize()\n"
        "    g = torch.cuda.CUDAGraph()\n"
        "    with torch.cuda.graph(g):\n"
        "        x += 1\n"
        "    g.replay()\n"
        "    assert x.tolist() == [2, 2, 2] and x.device.index == 1\n"
        "try:\n"
        "    torch.ones(1, device='cuda:2')\n"
        "except torch.AcceleratorError as error:\n"
        "    assert 'invalid device ordinal' in str(error)\n"
        "else:\n"
        "    raise SystemExit('there is a third device')\n"
    )
    status, report = diagnose(script, "--sim-devices", "2")
    assert status == 0, report["exit"]
