"""The state that a failed capture left behind, and how to try again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_INVALIDATED

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import CaptureState, Session

_CLEAN = frozenset({"", "normal", "ok", "clean", "released", "none"})


def aftermath(session: Session, capture: CaptureState, graph: str) -> tuple[str, ...]:
    """One fact a line, with what undoes it; the last line is the recipe. Empty where the state was not looked at.

    Args:
        session: The process.
        capture: A capture that failed.
        graph: The graph's name in the user's code.
    """
    state = capture.state
    if state is None:
        return ()
    if not capture.begin.api.startswith("torch"):
        still = "the stream still counts as capturing: `cudaStreamEndCapture` on it, which returns 901, ends that"
        return (still,) if state.status == STATUS_INVALIDATED else ()
    facts = []
    if state.stream_current:
        found = session.streams.get(state.stream or capture.stream)
        stream = f"stream {found.handle}" if found is not None else "the capture stream"
        facts.append(
            f"{stream}, on which the capture ran, is still the current stream of this thread: "
            "`torch.cuda.set_stream(torch.cuda.default_stream())` restores the default stream"
        )
    if state.status == STATUS_INVALIDATED:
        facts.append("the stream still counts as capturing: end the capture (`capture_end()`) before anything else")
    if state.pool not in _CLEAN:
        facts.append(f"the graph's private memory pool: {state.pool}; `{graph}.reset()` gives it back")
    elif not state.pool:
        facts.append(f"the region's memory stays in the graph's private pool until `{graph}.reset()` or `del {graph}`")
    if state.rng not in _CLEAN:
        facts.append(f"random state: {state.rng}; seed again after the next good capture")
    elif not state.rng and _had_random_operators(capture):
        facts.append(
            "the default generator may still be in capture mode: `Offset increment outside graph capture` from a "
            "random operator is a consequence, and goes away with the next good capture"
        )
    if state.sticky:
        facts.append(f"the CUDA context is lost (cudaError {state.sticky} from every later call): restart the process")
        return tuple(facts)
    if state.sticky == 0:
        facts.append("the CUDA context is intact: no sticky error")
    facts.append(_recipe(graph, stream_current=bool(state.stream_current)))
    return tuple(facts)


def _had_random_operators(capture: CaptureState) -> bool:
    return any(
        re.search(r"rand|normal|bernoulli|dropout|exponential|multinomial|uniform", op.name) for op in capture.ops()
    )


def _recipe(graph: str, *, stream_current: bool) -> str:
    back = "torch.cuda.set_stream(torch.cuda.default_stream()); " if stream_current else ""
    return f"to try again: `{back}torch.cuda.synchronize(); {graph} = torch.cuda.CUDAGraph()`, then capture as before"
