"""The start-up self-test: quick, and a build that it does not fit is refused with one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cudagraph_doctor.sim.self_test import check_version
from cudagraph_doctor.sim.unavailable import WORKS_WITH, SimUnavailable
from tests.sim.conftest import ENVIRONMENT

SECONDS = 0.3


def child(source: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("version", ["2.10.1+cu128", "1.13"])
def test_old_torch_is_refused(version):
    with pytest.raises(SimUnavailable, match="too old") as caught:
        check_version(version)
    assert WORKS_WITH in str(caught.value)


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cpu", "2.14.1+cu130", "2.15.0a0+git12", "3.0.0"])
def test_newer_torch_is_left_to_the_proof(version):
    check_version(version)


REFUSED = """
from cudagraph_doctor.sim import self_test, install, SimUnavailable
def broken(device): {body}
self_test._CHECKS["a kernel"] = broken
try:
    install()
except SimUnavailable as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [("return False", "wrong result"), ("raise ValueError('no such\\n slot')", "ValueError: no such")],
)
def test_what_does_not_fit_is_one_line_with_what_works(body, reason):
    line = child(REFUSED.format(body=body))
    assert "\n" not in line
    assert f"a kernel failed ({reason})" in line
    assert line.endswith(WORKS_WITH)


def test_a_visible_gpu_is_refused():
    source = (
        "from cudagraph_doctor.sim import install, SimUnavailable\ntry: install()\nexcept SimUnavailable as e: print(e)"
    )
    assert "CUDA_VISIBLE_DEVICES" in child(source, CUDA_VISIBLE_DEVICES="0")


def test_proof_is_quick():
    source = (
        "import time\n"
        "from cudagraph_doctor.sim import self_test, install\n"
        "prove = self_test.prove\n"
        "def timed(device):\n"
        "    begin = time.process_time()\n"
        "    prove(device)\n"
        "    print(time.process_time() - begin)\n"
        "self_test.prove = timed\n"
        "install()\n"
    )
    assert float(child(source)) < SECONDS


def test_nothing_is_patched_unless_asked():
    source = (
        "import torch, sys\n"
        "def names(): return {(m, k): v for m in ('torch', 'torch._C', 'torch.cuda', 'torch.autograd.graph')"
        " for k, v in vars(sys.modules[m]).items()}\n"
        "before, finders = names(), list(sys.meta_path)\n"
        "import cudagraph_doctor.sim.device, cudagraph_doctor.sim.driver, cudagraph_doctor.sim.dispatch\n"
        "after = names()\n"
        "print(finders == sys.meta_path, [key for key in before if after[key] is not before[key]],"
        " torch.cuda.is_available())\n"
    )
    assert child(source) == "True [] False"
