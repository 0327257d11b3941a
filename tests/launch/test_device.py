"""Which device a run gets: auto simulates only where NVML sees no GPU and no driver is installed."""

from __future__ import annotations

import pytest

from cudagraph_doctor.errors import TargetError
from cudagraph_doctor.launch import device
from cudagraph_doctor.launch.device import Gpus
from cudagraph_doctor.launch.interpreter import Interpreter

NOTHING = Gpus((), driver=False, why="no library")
DRIVER = Gpus((), driver=True, why="NVML sees no device")
GPU = Gpus(("NVIDIA H200",), driver=True)
CUDA_TORCH = Interpreter("/python", (3, 12, 1), torch="2.11.0+cu130", cuda="13.0")
CPU_TORCH = Interpreter("/python", (3, 12, 1), torch="2.11.0+cpu")
ROCM_TORCH = Interpreter("/python", (3, 12, 1), torch="2.11.0+rocm7", hip="7.0")


@pytest.fixture(params=[True, False], ids=["sim", "no sim"])
def sim_is_here(request, monkeypatch):
    monkeypatch.setattr(device, "_sim_is_here", lambda: request.param)
    return request.param


@pytest.mark.parametrize("asked", ["auto", "cuda"])
def test_gpu_is_used(asked: str, sim_is_here: bool) -> None:
    chosen = device.choose(asked, 1, CUDA_TORCH, GPU)
    assert (chosen.name, chosen.told) == ("cuda", "NVIDIA H200")


def test_auto_simulates_without_gpu_and_driver(sim_is_here: bool) -> None:
    if sim_is_here:
        chosen = device.choose("auto", 2, CPU_TORCH, NOTHING)
        assert chosen.name == "sim"
        assert "no NVIDIA GPU and no driver" in chosen.told
    else:
        with pytest.raises(TargetError, match="no NVIDIA GPU") as caught:
            device.choose("auto", 1, CPU_TORCH, NOTHING)
        assert caught.value.hint


@pytest.mark.parametrize("gpus", [NOTHING, DRIVER, GPU])
def test_sim_is_used_where_it_is_asked_for(gpus: Gpus, monkeypatch) -> None:
    monkeypatch.setattr(device, "_sim_is_here", lambda: True)
    assert device.choose("sim", 1, CPU_TORCH, gpus).name == "sim"


def test_auto_does_not_simulate_beside_a_driver(sim_is_here: bool) -> None:
    with pytest.raises(TargetError, match="driver is here"):
        device.choose("auto", 1, CUDA_TORCH, DRIVER)


def test_cuda_without_a_gpu_is_refused_in_one_line(sim_is_here: bool) -> None:
    with pytest.raises(TargetError) as caught:
        device.choose("cuda", 1, CUDA_TORCH, NOTHING)
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("torch", "what"), [(CPU_TORCH, "without CUDA"), (ROCM_TORCH, "ROCm")])
def test_torch_that_cannot_use_the_gpu(torch: Interpreter, what: str) -> None:
    with pytest.raises(TargetError, match=what):
        device.choose("auto", 1, torch, GPU)


def test_command_is_taken_at_its_word() -> None:
    assert device.choose("auto", 1, None, GPU).name == "cuda"
