"""What a machine can do, from facts alone: every lack has its way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cudagraph_doctor.environment.abilities import Machine, abilities
from cudagraph_doctor.environment.description import text
from cudagraph_doctor.environment.devices import Driver, Gpu
from cudagraph_doctor.environment.platform_facts import PlatformFacts
from cudagraph_doctor.environment.torch_facts import TorchFacts

GPU = Gpu(0, "NVIDIA H200", 143 * 2**30, "default", mig=False)
H200 = Machine(
    driver=Driver("580.159", (13, 0), (GPU,)),
    platform=PlatformFacts("linux", libcuda=True, driver_log=True),
    torch=TorchFacts("/usr/bin/python", "3.12.3", "2.11.0+cu130", "13.0", bindings="13.3.1", cupti=True),
    native_probe=True,
)
LAPTOP = Machine(
    driver=Driver(why="NVML Shared Library Not Found"),
    platform=PlatformFacts("linux"),
    torch=TorchFacts("/usr/bin/python", "3.11.7", "2.13.0+cpu"),
)


def lack(machine: Machine, start: str) -> str | None:
    found = [ability for ability in abilities(machine) if ability.what.startswith(start)]
    assert len(found) == 1
    return found[0].lack


def test_a_full_machine_lacks_nothing():
    assert [ability.lack for ability in abilities(H200)] == [None] * len(abilities(H200))


def test_every_lack_has_a_way_out():
    for ability in abilities(replace(LAPTOP, torch=TorchFacts("/usr/bin/python", why="no torch"))):
        assert (ability.lack is None) == (ability.way_out is None)


def test_a_laptop_can_check_and_simulate():
    assert lack(LAPTOP, "check") is None
    assert lack(LAPTOP, "run on the simulated") is None
    assert lack(LAPTOP, "run on a GPU") == "no CUDA driver is installed"


@pytest.mark.parametrize(
    ("change", "what", "said"),
    [
        ({"torch": replace(H200.torch, torch=None, why="ModuleNotFoundError")}, "run on a GPU", "no torch in"),
        ({"torch": replace(H200.torch, torch="2.5.1+cu124")}, "python evidence", "too old"),
        ({"torch": replace(H200.torch, torch="2.9.0+cu128")}, "run on the simulated", "too old"),
        ({"torch": replace(H200.torch, cuda=None)}, "run on a GPU", "without CUDA"),
        ({"torch": replace(H200.torch, cuda=None, hip="6.4")}, "run on a GPU", "ROCm"),
        ({"torch": replace(H200.torch, cupti=False)}, "driver evidence", "libcupti"),
        ({"native_probe": False}, "driver evidence", "not compiled"),
        ({"driver": Driver("580.159", (13, 0), ())}, "run on a GPU", "no GPU is visible"),
        (
            {"driver": replace(H200.driver, gpus=(replace(GPU, compute_mode="prohibited"),))},
            "run on a GPU",
            "prohibited",
        ),
        ({"platform": replace(H200.platform, driver_log=False)}, "the driver's own", "this driver has none"),
        ({"platform": replace(H200.platform, system="darwin")}, "run on the simulated", "darwin"),
        (
            {"platform": replace(H200.platform, variables={"CUDA_INJECTION64_PATH": "/x.so"})},
            "driver evidence",
            "CUDA_INJECTION64_PATH",
        ),
    ],
)
def test_each_lack_is_named(change, what, said):
    assert said in (lack(replace(H200, **change), what) or "")


def test_the_description_says_what_was_not_found():
    shown = text(LAPTOP, abilities(LAPTOP))
    assert "none (NVML Shared Library Not Found)" in shown
    assert "no   run on a GPU" in shown
    assert "yes  run on the simulated device" in shown


def test_the_description_names_every_device():
    shown = text(H200, abilities(H200))
    assert "NVIDIA H200, 143 GiB, compute mode default, MIG off" in shown
    assert "580.159, CUDA 13.0" in shown
    assert "lazy (the default" in shown
