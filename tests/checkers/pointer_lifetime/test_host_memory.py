"""CGD405: host memory behind captured copies that died, or was written too early."""

from cudagraph_doctor.trace import events

STAGED = 0x90000
TEXT = """
staging = torch.zeros(64).pin_memory()
with torch.cuda.graph(g):
    x.copy_(staging, non_blocking=True)
for request in requests:
    staging.fill_(request)
    g.replay()
staging = None
"""


def staged(fate, tensor, **storage):
    f = fate(TEXT)
    given = (tensor.cuda("0", 0x1000, written=True, storage=5), tensor.cpu("1", STAGED, pinned=True, storage=1))
    capture = f.region.capture(
        ("aten::copy_", (("x.copy_", "<module>", "x.copy_(staging, non_blocking=True)"),), {"tensors": given})
    )
    f.storage(1, STAGED, capture, dev="cpu", space="pinned")
    f.graph(capture)
    read = [("x.copy_", "<module>", "staging")]
    f.region.slot(capture, "staging", ptr=hex(STAGED), storage=1, reads=read, type="torch.Tensor")
    return f, capture


def rewrite(f, capture, **fields):
    stack = f.trace.stack(f.region.script.line("g.replay()"))
    fields = {"what": "written", "pending": True, "noticed": True, **fields}
    f.trace.add(events.Rewrite, storage=1, exec=capture.exec, replay=2, before=1, after=2, stack=stack, **fields)


def test_written_while_a_replay_needs_it(fate, tensor):
    f, capture = staged(fate, tensor)
    rewrite(f, capture)
    assert f.found == [("CGD405", 5, "error", "proven")]
    assert "`staging.fill_(request)` at script.py:5" in f.report.findings[0].message


def test_written_after_the_host_waited_is_clean(fate, tensor):
    f, capture = staged(fate, tensor)
    rewrite(f, capture, pending=False)
    assert f.found == []


def test_only_the_simulated_device_saw_the_write(fate, tensor):
    f, _ = staged(fate, tensor)
    stack = f.trace.stack(f.region.script.line("g.replay()"))
    f.trace.add(
        events.Race,
        what="host wrote the pinned source of a copy before waiting for it",
        ptr=hex(STAGED),
        size=256,
        name="cuGraphLaunch",
        first_name="cuGraphLaunch",
        first_stack=stack,
    )
    assert f.found == [("CGD405", 5, "error", "proven")]


def test_recycled(fate, tensor):
    f, capture = staged(fate, tensor)
    f.free(1, STAGED, capture, at="staging = None", now="reused", owner="a tensor in `later`", replay=2)
    rewrite(f, capture, what="recycled", pending=False)
    assert f.found == [("CGD405", 7, "error", "proven")]
    assert "belongs to a tensor in `later` now, and each replay copies that" in f.report.findings[0].message


def test_freed_and_not_taken_yet_is_a_warning(fate, tensor):
    f, capture = staged(fate, tensor)
    f.free(1, STAGED, capture, at="staging = None", replay=2)
    assert f.found == [("CGD405", 7, "warning", "proven")]


def test_kept_is_clean(fate, tensor):
    f, capture = staged(fate, tensor)
    f.replay(capture, "g.replay()", count=3)
    assert f.found == []
