"""pytest plugin: `@pytest.mark.cudagraph` runs a test in a recorded process of its own and fails it on findings.

pytest imports this file whenever the package is installed, so it imports nothing but pytest: no torch, no recorder, no
checkers. A failed capture, a device that is simulated, a crash: all of it stays in the test's own process.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cudagraph_doctor.testing.captured import Captured

MARKER = "cudagraph"
CHILD_OPTION = "--cudagraph-child"
"""Names the folder through which a child tells its parent what came of the test; hidden from `--help`."""

_MARKER_TEXT = (
    "cudagraph(device='auto', timeout=None, fail_on='error', select=(), ignore=(), own=(), allow_no_capture=False): run"
    " in a recorded process of its own; fail on findings about its CUDA graph captures"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options for users, one for ourselves."""
    group = parser.getgroup("cudagraph-doctor")
    group.addoption(
        "--cudagraph-device",
        choices=["auto", "cuda", "sim"],
        default=None,
        help="Where tests marked cudagraph run, whatever their marker says.",
    )
    group.addoption(
        "--cudagraph-timeout", type=float, default=None, metavar="S", help="Stop each such test after S seconds."
    )
    group.addoption(CHILD_OPTION, default=None, help=argparse.SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the marker; in a child, take over what the parent was given."""
    config.addinivalue_line("markers", _MARKER_TEXT)
    folder = config.getoption(CHILD_OPTION)
    if folder is not None:
        from cudagraph_doctor.pytest_plugin.child import Child

        config.pluginmanager.register(Child(config, folder), "cudagraph-doctor-child")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test in a child; leave every other to pytest."""
    if item.config.getoption(CHILD_OPTION) is not None or not _is_marked(item):
        return None
    from cudagraph_doctor.pytest_plugin.isolation import run_isolated

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_isolated(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # The test before left up what this one shares with it, and pytest does not know that this one needs nothing here.
    item.session._setupstate.teardown_exact(nextitem)
    return True


class CudaGraph:
    """What the fixture `cudagraph` gives."""

    def assert_capturable(self, function: Any, *arguments: Any, warmup: int = 3, **keywords: Any) -> Captured:
        """See `cudagraph_doctor.testing.assert_capturable`."""
        from cudagraph_doctor.testing.captured import assert_capturable

        return assert_capturable(function, *arguments, warmup=warmup, **keywords)

    def assert_no_findings(self, *, level: str = "error") -> None:
        """See `cudagraph_doctor.testing.assert_no_findings`."""
        from cudagraph_doctor.testing.captured import assert_no_findings

        assert_no_findings(level=level)


@pytest.fixture
def cudagraph() -> CudaGraph:
    """Assertions about captures. A test that uses it runs in a process of its own, as if it were marked."""
    return CudaGraph()


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARKER) is not None or MARKER in getattr(item, "fixturenames", ())
