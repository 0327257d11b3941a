"""Whether `thread_local` would have been enough: the measured table."""

import pytest

from cudagraph_doctor.checkers.invalidation.legality import breaks_under


@pytest.mark.parametrize(
    "api", ["cuMemAlloc_v2", "cudaMalloc", "cuMemHostAlloc", "cudaFree", "cuModuleUnload", "cuMemAllocPitch_v2"]
)
def test_unsafe_calls_of_other_threads_only_break_global_captures(api):
    assert [breaks_under(mode, api) for mode in ("global", "thread_local", "relaxed")] == [True, False, False]


@pytest.mark.parametrize("api", ["cuCtxSynchronize_v2", "cudaDeviceSynchronize", "torch.cuda.synchronize"])
def test_device_wide_waits_break_every_mode(api):
    assert all(breaks_under(mode, api) for mode in ("global", "thread_local", "relaxed"))


def test_what_a_wait_is_for_decides():
    assert breaks_under("thread_local", "cuStreamSynchronize") is False
    assert breaks_under("thread_local", "cuStreamSynchronize", on_capturing_stream=True) is True
    assert breaks_under("thread_local", "cuEventQuery") is False
    assert breaks_under("relaxed", "cuEventQuery", captured_event=True) is True


def test_what_was_not_measured_is_not_guessed():
    assert breaks_under("thread_local", "cuFancyNewCall") is None
