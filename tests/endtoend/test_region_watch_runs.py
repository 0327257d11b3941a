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
    "frozen_values/padding_*": "the recorder does not tell writes outside of captures yet (touch)",
    "frozen_values/recurrent_*": "the recorder does not tell writes outside of captures yet (touch)",
    "frozen_values/warmup_in_generator_*": "the recorder does not read the content of positions yet (slot.left)",
    "pointer_lifetime/nested_*": "the recorder does not tell what a replaying frame was handed yet (slot-change.given)",
    "pointer_lifetime/outputs_*": "the recorder does not tell who holds outputs yet (held)",
    "pointer_lifetime/previous_output_*": "the recorder does not tell who holds outputs yet (held)",
    "pointer_lifetime/engine_worker_thread_*": "the recorder does not tell who holds outputs yet (held)",
}
"""Faults whose facts are not in the trace yet. Each line goes when its record comes: xfail is strict."""
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


def faulty(name):
    reason = next((why for pattern, why in UNTOLD.items() if fnmatch(name, pattern)), "")
    return pytest.param(name, marks=pytest.mark.xfail(reason=reason) if reason else ())


@pytest.mark.parametrize("name", [faulty(name) for name in (*REWRITTEN, *OTHERS)])
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


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_programs_are_quiet(name, blanked, diagnose):
    script, _ = blanked(SCRIPTS / name)
    status, report = diagnose(script)
    assert [f["message"] for f in report["findings"] if f["level"] in {"error", "warning"}] == []
    assert status == 0
    assert report["captures"]
