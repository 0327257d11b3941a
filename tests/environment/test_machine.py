"""This machine, and machines whose NVML answers badly."""

# ruff: noqa: N802, N815 - the names are NVML's own

from __future__ import annotations

import sys

import pytest

from cudagraph_doctor.environment.abilities import abilities
from cudagraph_doctor.environment.devices import find_driver
from cudagraph_doctor.environment.machine import find_machine
from cudagraph_doctor.environment.platform_facts import find_platform


class NoNvml:
    """NVML as it behaves on a machine without a driver."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self):
        raise self.NVMLError("NVML Shared Library Not Found")


class OldNvml(NoNvml):
    """One device whose answers are bytes, and which does not know half of the questions."""

    def nvmlInit(self):
        pass

    nvmlShutdown = nvmlInit

    def nvmlSystemGetDriverVersion(self):
        return b"470.82"

    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, handle):
        return b"Tesla V100"

    def _unknown(self, *args):
        raise self.NVMLError("Not Supported")

    nvmlSystemGetCudaDriverVersion_v2 = _unknown
    nvmlDeviceGetMemoryInfo = nvmlDeviceGetComputeMode = nvmlDeviceGetMigMode = _unknown


def test_a_machine_without_a_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", NoNvml())
    assert find_driver().why == "NVML Shared Library Not Found"
    assert find_driver().gpus == ()


def test_a_device_that_answers_half(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", OldNvml())
    driver = find_driver()
    assert driver.version == "470.82"
    assert driver.cuda is None
    assert driver.gpus[0].name == "Tesla V100"
    assert driver.gpus[0].memory is None


def test_variables_that_matter_are_shown(monkeypatch):
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    variables = find_platform().variables
    assert variables["CUDA_MODULE_LOADING"] == "EAGER"
    assert "SECRET_TOKEN" not in variables


@pytest.mark.skipif(sys.platform != "linux", reason="asks this Linux machine")
def test_this_machine_can_be_described():
    assert abilities(find_machine())[0].lack is None
