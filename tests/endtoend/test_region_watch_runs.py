"""What captured regions read and wrote, through the whole way of a simulated run.

The scripts named `*_in_function`, `*_in_method` and `*_in_generator` put the captured part of one fault into each of
the three: what a region reads are then locals of a frame that is alive, attributes, closure cells.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts"
PLACES = ("function", "method", "generator")
FAULTS = {
    "frozen_values": ("branch", "position", "length", "counter", "warmup", "padding"),
    "pointer_lifetime": ("rebound", "cache", "nested", "weights", "outputs", "order"),
}
REWRITTEN = [
    f"{folder}/{fault}_in_{place}_bad.py" for folder, faults in FAULTS.items() for fault in faults for place in PLACES
]
OTHERS = (
    "frozen_values/adapter_list_bad.py",
    "frozen_values/engine_buckets_temperature_bad.py",
    "frozen_values/host_tensor_temperature_bad.py",
    "frozen_values/learning_rate_scheduler_bad.py",
    "frozen_values/mode_match_bad.py",
    "frozen_values/optional_bias_bad.py",
    "frozen_values/recurrent_state_rebound_bad.py",
    "frozen_values/speculative_draft_length_bad.py",
    "pointer_lifetime/engine_worker_thread_bad.py",
    "pointer_lifetime/lora_switch_bad.py",
    "pointer_lifetime/module_wrapped_bad.py",
    "pointer_lifetime/paged_block_table_bad.py",
    "pointer_lifetime/previous_output_bad.py",
    "pointer_lifetime/reader_stream_bad.py",
    "pointer_lifetime/registered_mask_bad.py",
)
UNTOLD = {
    "frozen_values/padding_*": ("CGD605", "work outside of captures is not watched"),
    "frozen_values/recurrent_*": ("CGD604", "work outside of captures is not watched"),
    "frozen_values/warmup_in_generator_*": ("CGD605", "what tensors hold is not read"),
    "pointer_lifetime/nested_*": ("CGD402", "what a replaying function is handed anew is not watched"),
    "pointer_lifetime/outputs_*": ("CGD406", "who holds a graph's outputs between replays is not watched"),
    "pointer_lifetime/previous_output_*": ("CGD406", "who holds a graph's outputs between replays is not watched"),
    "pointer_lifetime/engine_worker_thread_*": ("CGD406", "who holds a graph's outputs between replays is not watched"),
}
"""Faults whose facts no recorder tells: the report must say that it did not look, and why."""
HEALTHY = (
    "frozen_values/books_of_the_host_good.py",
    "frozen_values/capture_flag_good.py",
    "frozen_values/engine_buckets_temperature_good.py",
    "frozen_values/ping_pong_buffers_good.py",
    "frozen_values/recurrent_state_in_place_good.py",
    "frozen_values/speculative_draft_length_good.py",
    "pointer_lifetime/cache_reset_in_place_good.py",
    "pointer_lifetime/engine_worker_thread_good.py",
    "pointer_lifetime/lora_switch_good.py",
    "pointer_lifetime/outputs_copied_out_good.py",
    "pointer_lifetime/paged_block_table_good.py",
    "pointer_lifetime/prefetch_with_waits_good.py",
    "pointer_lifetime/refreshed_under_other_names_good.py",
)
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated device needs Linux"),
]


@pytest.fixture(autouse=True)
def needs_torch():
    pytest.importorskip("torch")


def untold(name):
    return next((said for pattern, said in UNTOLD.items() if fnmatch(name, pattern)), None)


@pytest.mark.parametrize("name", [name for name in (*REWRITTEN, *OTHERS) if not untold(name)])
def test_first_finding_has_the_rule_and_line_of_the_header(name, blanked, diagnose):
    script, expected = blanked(SCRIPTS / name)
    _, report = diagnose(script)
    found = [f for f in report["findings"] if f["level"] in {"error", "warning"}]
    assert found, report["limits"]
    place = found[0]["location"]
    assert found[0]["rule"] in expected["rules"], found[0]["message"]
    assert [Path(place["file"]).name, place["line"]] in expected["places"], found[0]["message"]
    others = [f["message"] for f in found[1:] if f["level"] == "error" and f["rule"] not in expected["rules"]]
    assert others == []


@pytest.mark.parametrize("name", [name for name in (*REWRITTEN, *OTHERS) if untold(name)])
def test_a_fault_that_cannot_be_seen_is_not_called_clean(name, blanked, diagnose):
    script, expected = blanked(SCRIPTS / name)
    rule, why = untold(name)
    assert rule in expected["rules"]
    _, report = diagnose(script)
    assert [f["message"] for f in report["findings"] if f["level"] in {"error", "warning"}] == []
    (decided,) = [one for checker in report["checkers"] for one in checker["rules"] if one["rule"] == rule]
    assert decided["state"] == "not_checked"
    assert why in decided["reason"]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_programs_are_quiet(name, blanked, diagnose):
    script, _ = blanked(SCRIPTS / name)
    status, report = diagnose(script)
    assert [f["message"] for f in report["findings"] if f["level"] in {"error", "warning"}] == []
    assert status == 0
    assert report["captures"]
