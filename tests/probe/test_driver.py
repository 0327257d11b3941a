from __future__ import annotations

import threading
from types import SimpleNamespace

from cudagraph_doctor.probe.driver import Driver


def answers(**calls):
    """A driver's library: each call gets its arguments, pointers as the objects they point to."""
    return SimpleNamespace(
        **{
            name: lambda *args, _call=call: _call(*(getattr(arg, "_obj", arg) for arg in args))
            for name, call in calls.items()
        }
    )


def test_without_a_driver_there_is_no_answer():
    driver = Driver("libnone.so")
    assert not driver.attach()
    assert driver.status(1) is None
    assert driver.device_facts(0) == {}


def test_name_and_version_of_the_device():
    def get(device, ordinal):
        device.value = ordinal + 40
        return 0

    def name(buffer, size, device):
        assert (device.value, size) == (43, 255)
        buffer.value = b"NVIDIA H200"
        return 0

    def version(number):
        number.value = 13010
        return 0

    driver = Driver()
    driver._lib = answers(cuDeviceGet=get, cuDeviceGetName=name, cuDriverGetVersion=version)
    facts = driver.device_facts(3)
    assert (facts["device"], facts["cuda"]) == ("NVIDIA H200", "13.1")


def test_what_the_driver_refuses_to_tell_is_left_out():
    driver = Driver()
    driver._lib = answers(cuDeviceGet=lambda *_: 101, cuDriverGetVersion=lambda *_: 999)
    assert not {"device", "cuda"} & set(driver.device_facts(7))


def test_threads_do_not_read_each_others_answers():
    import ctypes

    driver = Driver()
    both = threading.Barrier(2, timeout=10)

    def ask(stream, at):
        ctypes.c_int.from_address(at).value = stream
        both.wait()  # the other thread's answer is written before this one is read
        return 0

    driver._is_capturing = ask
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: driver.status(n)})) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1: 1, 2: 2}


def test_a_refusal_is_no_answer():
    driver = Driver()
    driver._is_capturing = lambda stream, at: 906
    assert driver.status(0) is None
