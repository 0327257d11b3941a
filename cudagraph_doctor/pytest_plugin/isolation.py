"""In the parent: starts the child, reads its reports, and judges the trace."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cudagraph_doctor.errors import DoctorError
from cudagraph_doctor.pytest_plugin import CHILD_OPTION, MARKER
from cudagraph_doctor.pytest_plugin.child import INTERRUPTED, OPTIONS, REPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.pytest_plugin.judgement import Judgement

_NOT_PASSED_ON = frozenset(
    [
        "file_or_dir",
        "args",
        "keyword",
        "markexpr",
        "maxfail",
        "collectonly",
        "numprocesses",
        "maxprocesses",
        "dist",
        "tx",
        "px",
        "rsyncdir",
        "looponfail",
        "lf",
        "ff",
        "nf",
        "cacheshow",
        "cacheclear",
        "failedfirst",
        "last_failed_no_failures",
        "stepwise",
        "capture",
        "usepdb",
        "usepdb_cls",
        "trace",
        "xmlpath",
        "junitprefix",
        "verbose",
        "quiet",
        "reportchars",
        "tbstyle_",
        "plugins",
        "basetemp",
        "durations",
        "help",
        "version",
        "cudagraph_child",
        "inifilename",
        "rootdir",
        "confcutdir",
        "importmode",
        "report_log_file",
        "testrunuid",
        "setuponly",
        "setupshow",
        "setupplan",
        "pastebin",
        "debug",
        "ignore",
        "ignore_glob",
        "deselect",
        "pyargs",
        "continue_on_collection_errors",
        "color",
        "code_highlight",
        "override_ini",
        "loadgroup",
    ]
)
"""pytest's own options that steer the whole session; what conftest files and plugins added is passed on."""


@dataclass(frozen=True)
class Marked:
    """What a test's marker and the command line say."""

    device: str = "auto"
    timeout: float | None = None
    fail_on: str = "error"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    allow_no_capture: bool = False

    @classmethod
    def of(cls, item: pytest.Item) -> Marked:
        """Raises TypeError for an argument that the marker does not know."""
        marker = item.get_closest_marker(MARKER)
        given: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown or (marker is not None and marker.args):
            what = f"argument {min(unknown)!r}" if unknown else "positional argument"
            raise TypeError(f"@pytest.mark.{MARKER}: unknown {what}; known are {', '.join(cls.__dataclass_fields__)}")
        for name in ("select", "ignore", "own"):
            value = given.get(name, ())
            given[name] = (value,) if isinstance(value, str) else tuple(value)
        config = item.config
        if config.getoption("--cudagraph-device") is not None:
            given["device"] = config.getoption("--cudagraph-device")
        if config.getoption("--cudagraph-timeout") is not None:
            given["timeout"] = config.getoption("--cudagraph-timeout")
        return cls(**given)


def run_isolated(item: pytest.Item) -> list[pytest.TestReport]:
    """The reports of one test that ran in a process of its own, judged by what its trace shows."""
    from cudagraph_doctor.pytest_plugin.judgement import judge, judged

    folder = tempfile.mkdtemp(prefix="cudagraph-doctor-test-")
    try:
        try:
            marked = Marked.of(item)
            trace, said = _run(item, marked, folder)
            reports = _reports(item, folder)
            judgement: Judgement | None = judge(trace, marked) if trace is not None else None
        except (DoctorError, TypeError, ValueError) as error:
            hint = f"\n{error.hint}" if isinstance(error, DoctorError) and error.hint else ""
            return [failed(item, "setup", f"cudagraph-doctor: {error}{hint}")]
        return judged(item, reports, judgement, said)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failed(item: pytest.Item, when: Any, text: str) -> pytest.TestReport:
    """A report of our own."""
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr=text,
        when=when,
        sections=[],
        duration=0,
        start=0,
        stop=0,
    )


def _run(item: pytest.Item, marked: Marked, folder: str) -> tuple[str | None, str]:
    """Runs the child; the folder of its trace, and what it wrote.

    Raises:
        UsageError, TargetError: it cannot be started.
        KeyboardInterrupt: it was interrupted.
    """
    from cudagraph_doctor import launch

    with open(os.path.join(folder, OPTIONS), "w", encoding="utf-8") as stream:
        json.dump(_options(item.config), stream)
    output = os.path.join(folder, "output.txt")
    options = launch.LaunchOptions(
        kind="module",
        target="pytest",
        arguments=tuple(_arguments(item, folder)),
        trace=os.path.join(folder, "trace"),
        timeout=marked.timeout,
        device=marked.device,
        python=sys.executable,
        own=marked.own,
    )
    with _output_to(output), _environment():
        result = launch.run(options, say=lambda _line: None)
    if result.end.stopped or os.path.exists(os.path.join(folder, INTERRUPTED)):
        raise KeyboardInterrupt  # the launcher gave the signal to the child; the session is to stop as well
    with open(output, encoding="utf-8", errors="replace") as stream:
        said = stream.read()
    return result.trace, said


def _arguments(item: pytest.Item, folder: str) -> Iterator[str]:
    config = item.config
    yield f"{item.path}::{item.nodeid.partition('::')[2]}"
    yield f"--rootdir={config.rootpath}"
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    # What addopts says is for the whole session (-n, --cov, -x); what the child needs of it is passed on by itself.
    yield from ("-o", "addopts=", f"--import-mode={config.getoption('importmode')}", "-p", "no:cacheprovider", "-q")
    yield from ("-p", "cudagraph_doctor.pytest_plugin")
    for name in config.option.plugins:
        if not name.startswith("no:") and "xdist" not in name and name != "cudagraph_doctor.pytest_plugin":
            yield from ("-p", name)
    yield from (CHILD_OPTION, folder)


def _options(config: pytest.Config) -> dict[str, Any]:
    plain = (str, int, float, bool, type(None))
    return {
        name: value
        for name, value in vars(config.option).items()
        if name not in _NOT_PASSED_ON and (isinstance(value, plain) or _is_plain_list(value))
    }


def _is_plain_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, (str, int, float, bool)) for one in value)


def _reports(item: pytest.Item, folder: str) -> list[pytest.TestReport]:
    path = os.path.join(folder, REPORTS)
    if not os.path.exists(path):
        return []
    reports = []
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            if line.endswith("\n"):  # a child that was killed may leave half of one
                data = json.loads(line)
                reports.append(item.config.hook.pytest_report_from_serializable(config=item.config, data=data))
    return reports


@contextmanager
def _output_to(path: str) -> Iterator[None]:
    """What the child's pytest prints is ours to show: its reports carry what the test printed."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(target)


@contextmanager
def _environment() -> Iterator[None]:
    """Without the options that the parent has taken already."""
    kept = os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ["PYTEST_ADDOPTS"] = kept
