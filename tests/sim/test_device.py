"""What the simulated device is: real tensors, real memory, and torch's own errors."""

from __future__ import annotations

import pytest


def test_tensors_are_plain_and_memory_is_real(on_device):
    status, _out, err, _ = on_device("""
import torch
x = torch.arange(6., device="cuda").view(2, 3)
assert type(x) is torch.Tensor and x.is_cuda and x.device == torch.device("cuda", 0)
y = x.t()
assert y.data_ptr() == x.data_ptr() and y.untyped_storage()._cdata == x.untyped_storage()._cdata
y[0, 0] = 9
assert x[0, 0].item() == 9
address = torch.empty(999, device="cuda").data_ptr()
assert torch.empty(999, device="cuda").data_ptr() == address, "freed memory is reused at once"
keep = torch.empty(999, device="cuda")
assert torch.empty(999, device="cuda").data_ptr() != keep.data_ptr()
""")
    assert status == 0, err


def test_large_blocks_are_split_and_merged(on_device):
    status, _out, err, _ = on_device("""
import torch
MB = 1 << 20
def new(megabytes): return torch.empty(megabytes * MB, dtype=torch.uint8, device="cuda")
a, b = new(4), new(4)
assert b.data_ptr() == a.data_ptr() + 4 * MB, "both come from one segment of 20 MiB"
assert torch.cuda.memory_reserved() == 20 * MB
start = a.data_ptr()
del a, b
assert new(20).data_ptr() == start, "the pieces were merged again"
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 0
""")
    assert status == 0, err


def test_private_pool_keeps_its_memory_from_eager_code(on_device):
    status, _out, err, _ = on_device("""
import torch
x = torch.ones(1000, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x + 1
    inner = y.data_ptr()
    del y
eager = [torch.empty(1000, device="cuda") for _ in range(50)]
assert all(t.data_ptr() != inner for t in eager)
""")
    assert status == 0, err


def test_out_of_memory_is_torchs_error(on_device):
    status, out, err, _ = on_device("""
import torch
torch.cuda.set_per_process_memory_fraction(0.01)
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print(str(error).startswith("CUDA out of memory. Tried to allocate 1.00 GiB."))
""")
    assert (status, out) == (0, "True\n"), err


def test_a_device_that_is_not_there(on_device):
    source = """
import torch
for make in (lambda: torch.empty(1, device="cuda:2"), lambda: torch.cuda.set_device(2), lambda: torch.ones(1).to("cuda:2")):
    try:
        make()
    except torch.AcceleratorError as error:
        print(str(error).splitlines()[0])
print(torch.cuda.device_count(), torch.ones(1, device="cuda:1").device)
"""
    status, out, err, _ = on_device(source, "--devices", "2")
    assert status == 0, err
    assert out.splitlines() == ["CUDA error: invalid device ordinal"] * 3 + ["2 cuda:1"]


def test_nothing_runs_while_a_stream_captures(on_device):
    status, out, err, _ = on_device("""
import torch
x, y = torch.zeros(4, device="cuda"), torch.full((4,), 7., device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    x.add_(1)
    y.copy_(x * 10)
print(x.tolist(), y.tolist())
for _ in range(2): g.replay()
print(x.tolist(), y.tolist())
""")
    assert status == 0, err
    assert out.splitlines() == [str([0.0] * 4) + " " + str([7.0] * 4), str([2.0] * 4) + " " + str([20.0] * 4)]


def test_current_stream_is_each_threads_own(on_device):
    status, _out, err, _ = on_device("""
import threading, torch
side = torch.cuda.Stream()
seen = []
with torch.cuda.stream(side):
    t = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
    t.start(); t.join()
    assert torch.cuda.current_stream() == side
assert seen == [torch.cuda.default_stream()]
""")
    assert status == 0, err


def test_backward_in_a_capture_is_captured(on_device):
    status, out, err, _ = on_device("""
import torch
w = torch.ones(3, device="cuda", requires_grad=True)
s = torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    (w * 2).sum().backward()
torch.cuda.current_stream().wait_stream(s)
w.grad = None
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    (w * 3).sum().backward()
g.replay()
print(w.grad.tolist())
""")
    assert (status, out) == (0, "[3.0, 3.0, 3.0]\n"), err


def test_a_legal_call_and_a_refused_one_are_recorded(on_device):
    status, _out, _err, records = on_device("""
import torch
x = torch.ones(4, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * 2
    y.sum().item()
""")
    assert status == 1
    calls = [record for record in records if record["k"] == "call" and record["api"] != "cuMemAlloc_v2"]
    assert [(call["api"], call["code"], call["before"], call["after"]) for call in calls] == [
        ("cuStreamBeginCapture", 0, 0, 1),
        ("cuLaunchKernel", 0, 1, 1),
        ("cuLaunchKernel", 0, 1, 1),
        ("cuStreamSynchronize", 900, 1, 2),
        ("cuStreamEndCapture", 901, 2, 0),
    ]
    assert [call.get("kernel") for call in calls[1:3]] == ["aten::mul", "aten::sum"]
    assert all(call["stream"] == calls[0]["stream"] for call in calls)


def test_keep_going_meets_every_obstacle(on_device):
    source = """
import torch
x, h = torch.ones(4, device="cuda"), torch.zeros(4)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    a = x.sum().item()
    torch.cuda.synchronize()
    b = h.cuda()
    c = x.nonzero()
"""
    status, _out, err, records = on_device(source, "--keep-going")
    assert status == 1
    assert "operation failed due to a previous error during capture" in err, "the capture fails at its end"
    refused = [r["api"] for r in records if r["k"] == "call" and r["code"] not in (0, 901)]
    assert refused[:2] == ["cuStreamSynchronize", "cuCtxSynchronize"]
    assert refused[-1] == "cuStreamSynchronize"
    raised = [r["chain"][0]["message"] for r in records if r["k"] == "exception"]
    assert len(raised) == 1
    assert raised[0].startswith("Cannot copy between CPU and CUDA tensors")


def test_what_is_not_simulated_says_so(on_device):
    status, out, err, records = on_device("""
import torch
f = torch.compile(torch.nn.Linear(4, 4).cuda())
print(f(torch.ones(1, 4, device="cuda")).shape)
""")
    assert (status, out) == (0, "torch.Size([1, 4])\n"), err
    assert [r["what"] for r in records if r["k"] == "limit"] == ["torch.compile"]


def test_ordered_streams_are_no_race(on_device):
    source = """
import torch
a, b = torch.cuda.Stream(), torch.cuda.Stream()
x = torch.zeros(1000, device="cuda")
with torch.cuda.stream(a):
    a.wait_stream(torch.cuda.default_stream())
    x.add_(1)
event = a.record_event()
with torch.cuda.stream(b):
    b.wait_event(event)
    x.mul_(2)
torch.cuda.synchronize()
x.sub_(1)
{more}
"""
    _, _, err, records = on_device(source.format(more=""))
    assert not [r for r in records if r["k"] == "race"], err
    racing = source.format(more="\nwith torch.cuda.stream(a):\n    x.add_(1)")
    _, _, err, records = on_device(racing)
    assert [r["what"] for r in records if r["k"] == "race"] == ["write after unordered write"], err


def test_number_beside_a_tensor_where_the_operator_takes_tensors_only(on_device):
    status, out, err, _ = on_device(
        "import torch\n"
        "x = torch.arange(6, device='cuda')\n"
        "print((x % 4).tolist(), (x.float() % 4).tolist(), (x & 3).tolist(), x.float().fmod(2).tolist())\n"
        "g = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(g):\n"
        "    y = x % 4\n"
        "g.replay()\n"
        "print(y.tolist())\n"
    )
    assert status == 0, err
    modulo = [0, 1, 2, 3, 0, 1]
    assert out.splitlines() == [f"{modulo} {[float(v) for v in modulo]} {modulo} {[0.0, 1.0] * 3}", f"{modulo}"]


def test_replayed_loss_warns_of_nothing(on_device):
    status, _, err, _ = on_device(
        "import torch\n"
        "x = torch.ones(6, 1, device='cuda')\n"
        "g = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(g):\n"
        "    y = torch.nn.functional.mse_loss(x, x * 3)\n"
        "g.replay()\n"
        "assert y.item() == 4\n"
    )
    assert (status, err) == (0, "")


def test_captured_event_never_happens(on_device):
    """H200: query, synchronize and elapsed_time fail with 1 (invalid argument) after the capture."""
    status, out, err, _ = on_device(
        "import torch\n"
        "x = torch.ones(4, device='cuda')\n"
        "done = torch.cuda.Event()\n"
        "g = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(g):\n"
        "    x.add_(1)\n"
        "    done.record()\n"
        "g.replay()\n"
        "try:\n"
        "    done.query()\n"
        "except torch.AcceleratorError as error:\n"
        "    print(error.error_code)\n"
        "done.record()\n"
        "print(done.query())\n"
    )
    assert (status, out.split()) == (0, ["1", "True"]), err


@pytest.mark.parametrize(("thread", "status"), [("", 0), ("threaded", 1)])
def test_new_pinned_memory_is_allowed_on_the_capturing_stream_only(on_device, thread, status):
    source = (
        "import threading, torch\n"
        "x = torch.ones(4, device='cuda')\n"
        "torch.cuda.synchronize()\n"
        "def fill():\n"
        "    torch.ones(1 << 16).pin_memory()\n"
        "def threaded():\n"
        "    worker = threading.Thread(target=fill)\n"
        "    worker.start()\n"
        "    worker.join()\n"
        "g = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(g):\n"
        f"    {thread or 'fill'}()\n"
        "    x.add_(1)\n"
    )
    assert on_device(source)[0] == status


def test_pinned_result_is_there_after_a_wait_and_not_before(on_device):
    status, out, err, _ = on_device(
        "import torch\n"
        "x, host = torch.zeros(2, device='cuda'), torch.full((2,), -1.).pin_memory()\n"
        "g = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(g):\n"
        "    y = x + 1\n"
        "    host.copy_(y, non_blocking=True)\n"
        "g.replay()\n"
        "early = host.tolist()\n"
        "torch.cuda.current_stream().synchronize()\n"
        "print(early, host.tolist())\n"
        "x.fill_(7)\n"
        "host.copy_(x, non_blocking=True)\n"
        "done = torch.cuda.current_stream().record_event()\n"
        "x.copy_(host, non_blocking=True)  # behind the copy to the host, on the same stream\n"
        "print(x.tolist(), done.query(), host.tolist())\n"
        "later = (x + 1).to('cpu', non_blocking=True)\n"
        "host.copy_(x * 2)  # waits\n"
        "print(later.tolist(), host.tolist())\n"
    )
    assert status == 0, err
    assert out.splitlines() == [
        "[-1.0, -1.0] [1.0, 1.0]", "[7.0, 7.0] True [7.0, 7.0]", "[8.0, 8.0] [14.0, 14.0]",
    ]  # fmt: skip


def test_seeding_reaches_every_device(on_device):
    status, out, err, _ = on_device(
        "import torch\n"
        "def draw(i):\n"
        "    torch.manual_seed(3)\n"
        "    return torch.rand(4, device=f'cuda:{i}').tolist()\n"
        "print(draw(0) == draw(0), draw(1) == draw(1), len(torch.cuda.get_rng_state_all()))\n",
        "--devices",
        "2",
    )
    assert (status, out) == (0, "True True 2\n"), err
