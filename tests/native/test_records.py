"""What the C probe writes, against stand-ins for libcupti and libcuda that drive its callbacks."""

import pytest


def user_lines(recording, stack):
    [found] = recording.of("stack", id=stack)
    return [frame[2] for frame in found["frames"]]


def test_nothing_is_watched_before_the_first_sign_of_a_capture(record):
    recording = record("healthy")
    assert not [call for call in recording.calls() if call.get("size") == 111]
    [evidence] = recording.of("evidence")
    assert evidence["level"] == "driver"
    assert evidence["q"] < recording.calls()[0]["q"]


def test_calls_of_a_window_carry_status_stream_stack_and_node(record):
    recording = record("healthy")
    [launch] = recording.calls("cuLaunchKernel")  # the one outside the window is not watched
    assert (launch["code"], launch["cap"], launch["before"], launch["after"], launch["on"]) == (0, 1, 1, 1, 1)
    assert (launch["kernel"], launch["grid"], launch["block"], launch["smem"]) == (
        "_Z6kernelPf",
        [4, 2, 1],
        [128, 1, 1],
        1024,
    )
    [copy] = recording.calls("cuMemcpyHtoDAsync_v2")
    assert (copy["size"], copy["ptrs"]) == (64, ["0x5000", "0x6000"])
    assert launch["node_handle"] != copy["node_handle"]
    assert user_lines(recording, launch["stack"])[:2] == ["launch", "healthy"]
    assert launch["tid"] == recording.tid
    assert launch["device"] == 0
    assert recording.of("context", id=launch["ctx"])


def test_replays_write_nothing(record):
    recording = record("healthy")
    assert not recording.calls("cuGraphLaunch")
    [instantiate] = recording.calls("cuGraphInstantiateWithFlags")
    assert instantiate["code"] == 0
    assert user_lines(recording, instantiate["stack"])[0] == "healthy"


def test_the_call_across_which_the_capture_broke_is_named(record):
    recording = record("broken")
    [change] = recording.of("capture-status", by="call")
    [guilty] = recording.of("call", q=change["across"])
    assert (guilty["api"], guilty["code"], guilty["before"], guilty["after"]) == ("cuMemAlloc_v2", 900, 1, 2)
    assert user_lines(recording, guilty["stack"])[:2] == ["allocate", "broken"]
    reason, returning = recording.of("log", after=guilty["q"])
    assert reason["message"].startswith("Operation not permitted")
    assert returning["message"].startswith("Returning 900")
    assert reason["api"] == returning["api"] == "cuMemAlloc_v2"
    after = [call for call in recording.calls("cuLaunchKernel") if call["q"] > guilty["q"]]
    assert [(call["code"], call["before"], call["on"]) for call in after] == [(901, 2, 2)]


def test_work_beside_the_capture_is_told_with_the_library_that_called(record):
    recording = record("broken")
    [beside] = [call for call in recording.calls("cuLaunchKernel") if call["on"] == 0]
    assert (beside["code"], beside["before"], beside["after"]) == (0, 1, 1)
    assert "node_handle" not in beside
    libraries = [(int(r["base"], 16), int(r["end"], 16), r["name"]) for r in recording.of("library")]
    names = [name for at in beside["returns"] for low, high, name in libraries if low <= int(at, 16) < high]
    assert any(name.startswith(("libffi", "_ctypes")) for name in names)
    assert not [name for name in names if name.startswith(("libcuda", "libcupti", "_probe"))]


def test_one_more_launch_into_a_capture_costs_one_question(record):
    recording = record("routine")
    assert recording.printed == [100]
    launches = recording.calls("cuLaunchKernel")
    assert {(c["cap"], c["code"], c["before"], c["after"], c["on"]) for c in launches[:-1]} == {
        (capture, 0, 1, 1, 1) for capture in (1, 2, 3)
    }
    [origin, second, *_] = [c["handle"] for c in recording.calls("cuStreamBeginCapture_v2")]
    assert {(c["cap"], c["handle"]) for c in launches} == {(1, origin), (2, second), (3, origin)}
    assert all("node_handle" in c for c in launches[:-1])
    assert [(c["code"], c["before"], c["after"], c["on"]) for c in launches[-1:]] == [(901, 2, 2, 2)]
    [change] = recording.of("capture-status")
    assert recording.of("call", q=change["across"], api="cuMemAlloc_v2")


@pytest.mark.parametrize("deep", [False, True])
def test_deep_recordings_tell_the_native_frames_of_every_launch(record, deep):
    inside, beside, _after = record("operator", deep=deep).calls("cuLaunchKernel")
    assert ("returns" in inside) is deep
    assert "returns" in beside


def test_functions_carry_their_names_and_unloads_their_functions(record):
    recording = record("modules")
    [load] = recording.calls("cuModuleLoadData")
    assert load["cap"] == 1
    [get] = recording.calls("cuModuleGetFunction")
    assert (get["kernel"], get["ptrs"]) == ("scale_rows", [load["ptr"], get["ptr"]])
    [unload] = recording.calls("cuModuleUnload")
    assert (unload["ptr"], unload["ptrs"]) == (load["ptr"], ["0x3008", "0x3010"])
    assert "cap" not in unload


def test_a_wait_in_a_window_is_an_intention_and_outside_it_is_nothing(record):
    recording = record("waits")
    [wait] = recording.of("call", api="cuStreamSynchronize")
    assert "code" not in wait
    assert wait["cap"] == 1
    [outcome] = recording.of("outcome", of=wait["q"])
    assert (outcome["code"], outcome["after"]) == (0, 1)


def test_launches_of_an_operator_share_its_stack(record):
    recording = record("operator")
    inside, beside, after = recording.calls("cuLaunchKernel")
    assert (inside["op"], inside["stack"]) == (77, 5)
    assert beside["op"] == 77
    assert user_lines(recording, beside["stack"])[1] == "operator"
    assert "op" not in after
    assert user_lines(recording, after["stack"])[1] == "operator"


def test_stacks_of_many_threads_are_not_mixed_up(record):
    recording = record("crowd")
    threads = {tid: f"worker_{i}" for i, tid in enumerate(recording.printed)}
    launches = recording.calls("cuLaunchKernel")
    assert len(launches) > 200
    stacks = {stack["id"]: [frame[2] for frame in stack["frames"]] for stack in recording.of("stack")}
    assert all(stacks[call["stack"]][:2] == ["launch", "work"] for call in launches)
    assert all(threads[call["tid"]] in stacks[call["stack"]] for call in launches)
    assert not recording.lost


def test_a_call_on_another_thread_is_named_with_its_thread_and_line(record):
    recording = record("other_thread")
    [change] = recording.of("capture-status", by="call")
    [guilty] = recording.of("call", q=change["across"])
    assert guilty["tid"] != recording.tid
    assert guilty["cap"] == change["cap"] == 1
    assert "allocate" in user_lines(recording, guilty["stack"])[0]


def test_a_capture_that_python_did_not_begin_is_recorded_as_a_whole(record):
    recording = record("native")
    [begin] = [r for r in recording.of("capture") if r["id"] < 0]
    assert (begin["api"], begin["mode"]) == ("cuStreamBeginCapture_v2", "relaxed")
    assert [r["code"] for r in recording.of("outcome", of=begin["q"])] == [0]
    [end] = recording.of("capture-end", cap=begin["id"])
    assert [r["code"] for r in recording.of("outcome", of=end["q"])] == [0]
    assert [call["code"] for call in recording.calls("cuLaunchKernel") if call["cap"] == begin["id"]] == [0]


def test_sequence_numbers_are_drawn_from_one_counter(record):
    recording = record("broken")
    assert not recording.lost
    numbers = [r["q"] for r in recording.records]
    assert len(numbers) == len(set(numbers))


def test_source_files_of_stacks_are_completed_with_their_text(record):
    recording = record("broken")
    sources = [r for r in recording.of("source", path="target:target.py") if r["id"] < 0]
    assert [bool(r.get("text")) for r in sources] == [False, True]
    assert all(r["role"] == "user" for r in sources)


def test_cupti_is_handed_over_for_good(record):
    recording = record("handed_over")
    [given] = recording.of("hand-over")
    assert given["to"] == "torch.profiler"
    assert [r["level"] for r in recording.of("evidence")] == ["driver", "python"]
    assert len(recording.calls("cuLaunchKernel")) == 1
    assert [r["state"] for r in recording.of("capability", name="driver")] == ["on", "off"]


def test_a_forked_child_is_not_recorded_by_the_probe(record):
    recording = record("forked")
    [child] = recording.others
    for records in (recording.records, child):
        assert not [r for r in records if r["k"] == "call" and r.get("size") == 4242]


def test_another_tool_that_holds_cupti_is_named(record):
    recording = record("foreign")
    [capability] = recording.of("capability", name="driver")
    assert (capability["state"], capability["why"]) == ("unavailable", "CUPTI for another tool")
    assert not recording.of("evidence", level="driver")


def test_a_blocked_signal_costs_the_stack_and_nothing_else(record):
    recording = record("blocked")
    [launch] = recording.calls("cuLaunchKernel")
    assert launch["no_stack"] == "the signal is blocked"
    assert launch["code"] == 0


def test_files_of_the_target_on_our_descriptors_stay_untouched(record):
    recording = record("closed")
    launches = recording.calls("cuLaunchKernel")
    assert len(launches) == 1  # the second could not be written: nothing of ours is open any more
    assert recording.lost >= 2


def test_a_torch_with_cupti_linked_in_is_said(record, build_with, tmp_path):
    folder = tmp_path / "static"
    folder.mkdir()
    recording = record("healthy", build=build_with(folder, cupti_name="libtorch_cuda.so"))
    [capability] = recording.of("capability", name="driver")
    assert "libcupti is not mapped" in capability["why"]


def test_another_layout_of_cupti_is_noticed(record, build_with, tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    recording = record("healthy", build=build_with(folder, broken_layout=True))
    [capability] = recording.of("capability", name="driver")
    assert "another structure" in capability["why"]


def test_a_package_built_without_a_compiler_is_said(record, tmp_path):
    recording = record("healthy", probe=tmp_path / "_probe.so")
    [capability] = recording.of("capability", name="driver")
    assert "was not built" in capability["why"]


def test_a_daemon_that_profiles_keeps_cupti(record):
    recording = record("healthy", environment={"KINETO_USE_DAEMON": "1"})
    [capability] = recording.of("capability", name="driver")
    assert "daemon" in capability["why"]
    assert not recording.calls()


def test_python_evidence_loads_nothing(record):
    recording = record("healthy", evidence="python")
    assert not recording.calls()
    assert not recording.of("capability", name="driver")
