"""What the target prints has no frame of ours: on a GPU these calls are C++."""

from __future__ import annotations

import pytest

FAILING = {
    "a sync in a capture": "with torch.cuda.graph(g): x.sum().item()",
    "a copy in a capture": "with torch.cuda.graph(g): x.add_(torch.ones(4).cuda())",
    "a seed in a capture": "with torch.cuda.graph(g): torch.manual_seed(torch.initial_seed() + 1)",
    "a device that is not there": "torch.cuda.set_device(7)",
    "a tensor on one": "torch.empty(1, device='cuda:7')",
    "a replay without a capture": "g.replay()",
    "an end without a begin": "g.capture_end()",
    "a kernel that refuses": "x @ torch.ones(3, 3, device='cuda')",
    "an index out of range": "x[5]",
    "too much memory": "torch.empty(1 << 40, device='cuda')",
    "an event never recorded": "torch.cuda.Event().elapsed_time(torch.cuda.Event())",
    "what is not simulated": "torch.ops.aten._cudnn_rnn_flatten_weight([x, x], 2, 8, 0, 2, 8, 1, False, False)",
    "a hook of the user's": "w = torch.ones(4, device='cuda', requires_grad=True)\n"
    "    w.register_hook(lambda grad: 1 / 0)\n"
    "    w.sum().backward()",
}


@pytest.mark.parametrize("what", FAILING)
def test_no_frame_of_ours(what, on_device):
    status, out, err, _ = on_device(
        "import torch, traceback\n"
        "x = torch.ones(4, device='cuda')\n"
        "g = torch.cuda.CUDAGraph()\n"
        "try:\n"
        f"    {FAILING[what]}\n"
        "except Exception as error:\n"
        "    print(traceback.format_exc())\n"
    )
    assert status == 0, err
    frames = [line for line in out.splitlines() if line.startswith("  File ")]
    assert frames
    assert "script.py" in frames[0]
    assert not [frame for frame in frames if "cudagraph_doctor" in frame], out


def test_a_mistake_of_ours_keeps_its_frames(on_device):
    _, out, _, _ = on_device(
        "import torch, traceback\n"
        "from cudagraph_doctor.sim.launch import Launcher\n"
        "Launcher.launch = lambda *_: {}['our mistake']\n"
        "try:\n"
        "    torch.nonzero(torch.ones(3, device='cuda'))\n"
        "except KeyError:\n"
        "    print(traceback.format_exc())\n"
    )
    assert "sim/launch.py" in out


def test_warning_of_an_empty_graph_is_torchs(on_device):
    status, out, err, _ = on_device(
        "import torch, warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    with torch.cuda.graph(torch.cuda.CUDAGraph()):\n"
        "        pass\n"
        "print(*(warning.filename for warning in caught))\n"
    )
    assert status == 0, err
    assert out.strip().endswith("torch/cuda/graphs.py")
