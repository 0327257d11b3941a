"""Assertions inside a recorded test: that a function can be captured, and that nothing was found so far."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudagraph_doctor._wire import ENV_CONFIG
from cudagraph_doctor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Captured:
    """A function's graph, replayed once."""

    graph: Any
    """`torch.cuda.CUDAGraph`."""
    result: Any
    """What the function returned while it was captured: replays write into these tensors."""

    def replay(self) -> Any:
        """Replay, wait, and return the result, whose tensors the next replay overwrites."""
        import torch

        self.graph.replay()
        torch.cuda.synchronize()
        return self.result


def assert_capturable(function: Callable[..., Any], *arguments: Any, warmup: int = 3, **keywords: Any) -> Captured:
    """Fails unless `function(*arguments, **keywords)` can be captured and replayed, and no error is found.

    Args:
        function: works on the current CUDA stream.
        arguments: static inputs: replays read the same tensors.
        warmup: runs on a side stream before the capture, as torch's documentation asks for.
        keywords: more of them.

    Raises:
        AssertionError: with the line, the cause and the remedy.
        UsageError: this process is not recorded.
    """
    import torch

    _trace_folder()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmup):
            function(*arguments, **keywords)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    name = getattr(function, "__qualname__", repr(function))
    try:
        with torch.cuda.graph(graph):
            result = function(*arguments, **keywords)
    except Exception as error:
        raise AssertionError(f"{name} cannot be captured: {error}\n{_findings('error')}") from error
    captured = Captured(graph, result)
    captured.replay()
    assert_no_findings()
    return captured


def assert_no_findings(*, level: str = "error") -> None:
    """Fails if the trace of this process shows, so far, a finding of `level` or worse that is proven or likely.

    Raises:
        AssertionError: with each finding's line, cause and remedy.
        UsageError: this process is not recorded.
    """
    found = _findings(level)
    if found:
        raise AssertionError(found)


def _findings(level: str) -> str:
    from cudagraph_doctor.engine.run import diagnose
    from cudagraph_doctor.findings import Severity
    from cudagraph_doctor.report import Gate
    from cudagraph_doctor.reporters.places import where

    gate = Gate(fail_on=Severity(level))
    report = diagnose([_trace_folder()])
    counted = [finding for finding in report.findings if gate.counts(finding)]
    return "\n".join(f"{where(f.location)}: {f.rule.id} {f.message} {f.remedy}" for f in counted)


def _trace_folder() -> str:
    try:
        return str(json.loads(os.environ[ENV_CONFIG])["trace"])
    except (KeyError, ValueError, TypeError):
        raise UsageError(
            "this process is not recorded", "mark the test with @pytest.mark.cudagraph, or use cudagraph-doctor run"
        ) from None
