"""The plugin, in pytest runs of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = [pytest.mark.sim, pytest.mark.slow]
HELPERS = """\
import sys

import pytest


def capture(body):
    import torch

    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = body(x)
    graph.replay()
    return result
"""


def run(folder, text: str, *options: str) -> tuple[dict[str, str], str]:
    """Outcome of each test by name, and everything that pytest printed."""
    (folder / "test_it.py").write_text(HELPERS + "\n\n" + textwrap.dedent(text))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--cudagraph-device=sim", *options, "test_it.py"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    outcomes = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS") and "::" in rest:
            outcomes[rest.partition("::")[2].partition(" ")[0]] = word
    return outcomes, done.stdout + done.stderr


def test_outcomes(tmp_path):
    outcomes, said = run(
        tmp_path,
        """
        def test_before():
            assert "torch" not in sys.modules

        @pytest.fixture(scope="module")
        def shared():
            import os
            return os.getpid()

        def test_shared(shared):
            pass

        @pytest.mark.cudagraph
        def test_clean(shared):
            capture(lambda x: x + 1)

        @pytest.mark.cudagraph
        def test_swallowed():
            try:
                capture(lambda x: x.sum().item())
            except Exception:
                pass

        @pytest.mark.cudagraph
        def test_nothing_captured():
            pass

        @pytest.mark.cudagraph(allow_no_capture=True)
        def test_nothing_needed():
            pass

        @pytest.mark.cudagraph(fail_on="never")
        def test_told_only():
            try:
                capture(lambda x: x.sum().item())
            except Exception:
                pass

        @pytest.mark.xfail(reason="known", strict=True)
        @pytest.mark.cudagraph
        def test_expected():
            try:
                capture(lambda x: x.sum().item())
            except Exception:
                pass

        @pytest.mark.cudagraph
        def test_killed():
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)

        @pytest.mark.cudagraph(devise="sim")
        def test_misspelt():
            pass

        @pytest.mark.cudagraph
        def test_plainly_wrong():
            capture(lambda x: x + 1)
            print("said before it failed")
            assert 1 == 2

        def test_after():
            assert "torch" not in sys.modules
        """,
    )
    assert outcomes == {
        "test_before": "PASSED",
        "test_shared": "PASSED",
        "test_clean": "PASSED",
        "test_swallowed": "FAILED",
        "test_nothing_captured": "FAILED",
        "test_nothing_needed": "PASSED",
        "test_told_only": "PASSED",
        "test_expected": "XFAIL",
        "test_killed": "FAILED",
        "test_misspelt": "ERROR",
        "test_plainly_wrong": "FAILED",
        "test_after": "PASSED",
    }, said
    assert "CGD101 `x.sum().item()` waits" in said
    assert "No capture was begun" in said
    assert "was killed by SIGKILL" in said
    assert "unknown argument 'devise'" in said
    assert "said before it failed" in said
    assert list(tmp_path.glob("cudagraph-doctor-trace*")) == []


def test_the_fixture(tmp_path):
    outcomes, said = run(
        tmp_path,
        """
        def test_capturable(cudagraph):
            import torch
            x = torch.zeros(4, device="cuda")
            captured = cudagraph.assert_capturable(lambda x: x + 1, x)
            x.fill_(2)
            assert captured.replay().tolist() == [3, 3, 3, 3]
            cudagraph.assert_no_findings()

        def reads(x):
            return x.sum().item()

        def test_not_capturable(cudagraph):
            import torch
            with pytest.raises(AssertionError, match="CGD101"):
                cudagraph.assert_capturable(reads, torch.zeros(4, device="cuda"))
            raise RuntimeError("so far")
        """,
    )
    assert outcomes == {"test_capturable": "PASSED", "test_not_capturable": "FAILED"}, said
    assert "RuntimeError: so far" in said


def test_without_a_recording_there_is_a_way_out():
    from cudagraph_doctor.errors import UsageError
    from cudagraph_doctor.testing import assert_no_findings

    with pytest.raises(UsageError, match="not recorded"):
        assert_no_findings()


def test_an_interrupt_stops_the_session(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pathlib, time\nimport pytest\n\n"
        "@pytest.mark.cudagraph\ndef test_long():\n    pathlib.Path('begun').touch()\n    time.sleep(60)\n\n"
        "def test_next():\n    pathlib.Path('next').touch()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cudagraph-device=sim", "test_it.py"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    for _ in range(600):
        if (tmp_path / "begun").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2, said
    assert "KeyboardInterrupt" in said
    assert not (tmp_path / "next").exists()


def test_under_xdist_with_options_and_conftest(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--size', type=int, default=1)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -n 2 --strict-markers\nmarkers =\n    mine: x\n")
    outcomes, said = run(
        tmp_path,
        """
        pytestmark = pytest.mark.mine

        @pytest.mark.cudagraph
        @pytest.mark.parametrize("n", [1, 2, "a b/[c]::d"])
        def test_sized(n, request):
            assert request.config.getoption("--size") == 7
            capture(lambda x: x + 1)

        def test_plain(request):
            assert request.config.getoption("--size") == 7
        """,
        "--size=7",
    )
    assert list(outcomes.values()) == ["PASSED"] * 4, said


def test_the_plugin_imports_nothing_at_collection():
    code = (
        "import sys, cudagraph_doctor.pytest_plugin\n"
        "bad = [n for n in sys.modules if n.partition('.')[0] in ('torch', 'numpy', 'msgspec', 'click', 'rich')"
        " or n.startswith(('cudagraph_doctor.probe', 'cudagraph_doctor.engine', 'cudagraph_doctor.launch'))]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
