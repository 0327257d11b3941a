"""What torch and the libraries say when they refuse something themselves, and the rule that it belongs to.

The status of the capture stays Active in these cases (facts: measured on torch 2.11 to 2.14), so the text of the
exception is the evidence.
"""

from __future__ import annotations

import re

COPY = "copy"
"""A copy between host and device; its direction decides between CGD101 and CGD102."""
RNG = "rng"
"""Random state; what runs around it decides (checkpoint, compile)."""

# (pattern, rule or one of the kinds above, what chose it). The first that is found decides.
_TEXTS: tuple[tuple[str, str, str], ...] = (
    (r"Cannot copy between CPU and CUDA tensors during CUDA graph capture", COPY, "unpinned"),
    (r"must be captured on a non-default stream", "CGD112", "default-stream"),
    (
        r"Capture must end on the same stream|should not be capturing when the capture is ended",
        "CGD111",
        "other-stream",
    ),
    (r"capturable is False", "CGD118", "optimizer"),
    (r"Cannot prepare for replay during captur", "CGD108", "replay"),
    (r"Cannot register the state during captur|Only one capture at a time", "CGD108", "second-capture"),
    (r"During CUDA graph capture, autograd node|AccumulateGrad node's stream", "CGD114", "autograd-node"),
    (r"FIND was unable to find an engine", "CGD303", "cudnn-benchmark"),
    (
        (
            r"CUBLAS_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)|cublas(?:Lt)?Create|cusolver\w*Create|cusparseCreate|cufft\w*Create"
            r"|CUDNN_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)|cudnnCreate|ncclCommInit"
        ),
        "CGD115",
        "library-create",
    ),
    (r"out of resource: shared memory", "CGD502", "out-of-resources"),
    (r"out of resource: (?:registers|threads|tensor memory)", "CGD503", "out-of-resources"),
    (r"preserve_rng_state", "CGD118", "checkpoint"),
    (r"incompatible with \.grad\(\)", "CGD118", "checkpoint"),
    (r"Modules must not have hooks registered|must not have hooks", "CGD118", "hooks"),
    (
        (
            r"current_seed|set_current_seed|increase offset for a (?:CUDA )?generator"
            r"|Offset increment outside graph capture"
            r"|not registered with the (?:CUDA )?graph|RNG op during graph capture|generator.*captur"
        ),
        RNG,
        "generator",
    ),
    (r"(?i)autotun\w*.*captur|captur\w*.*autotun", "CGD303", "autotune"),
    (
        (
            r"(?i)cannot be (?:graph )?captured|not (?:supported|allowed|permitted) (?:during|under|in|inside|while) "
            r"(?:a )?(?:cuda )?(?:graph|stream) ?captur|during cuda graph capture"
        ),
        "CGD118",
        "refusal",
    ),
)
_COMPILED = tuple((re.compile(pattern), rule, why) for pattern, rule, why in _TEXTS)

_CONSEQUENCES = re.compile(
    r"previous error during capture|STREAM_CAPTURE_INVALIDATED|cudaErrorStreamCaptureInvalidated"
    r"|without a preceding successful capture|Offset increment outside graph capture"
    r"|CUBLAS_STATUS_INTERNAL_ERROR|CUBLAS_STATUS_EXECUTION_FAILED|CUDNN_STATUS_EXECUTION_FAILED"
    r"|INTERNAL ASSERT FAILED.*(?:CachingAllocator|CUDAGraph|CUDAGeneratorImpl)|captures?_underway",
    re.DOTALL,
)

_CUDA_CODES = (
    (900, r"operation not permitted when stream is capturing|STREAM_?CAPTURE_?UNSUPPORTED"),
    (901, r"operation failed due to a previous error during capture|STREAM_?CAPTURE_?INVALIDATED"),
    (902, r"merge of separate capture sequences|STREAM_?CAPTURE_?MERGE"),
    (903, r"not ended in the same stream as it began|STREAM_?CAPTURE_?UNMATCHED"),
    (904, r"capturing stream has unjoined work|STREAM_?CAPTURE_?UNJOINED"),
    (905, r"dependency created on uncaptured work|STREAM_?CAPTURE_?ISOLATION"),
    (906, r"legacy stream depend on a capturing blocking stream|STREAM_?CAPTURE_?IMPLICIT"),
    (907, r"event last recorded in a capturing stream|CAPTURED_?EVENT"),
    (908, r"terminate a thread-local capture sequence|STREAM_?CAPTURE_?WRONG_?THREAD"),
    (401, r"ILLEGAL_?STATE|operation cannot be performed in the present state"),
)
_CODES = tuple((code, re.compile(pattern, re.IGNORECASE)) for code, pattern in _CUDA_CODES)


def rule_of(message: str) -> tuple[str, str] | None:
    """(rule or kind, what chose it) of an exception's text; None where it is nobody's."""
    return next(((rule, why) for pattern, rule, why in _COMPILED if pattern.search(message)), None)


def is_consequence(message: str, code: int = 0) -> bool:
    """Whether an exception can only be the consequence of an earlier failure in a capture."""
    return code == 901 or _CONSEQUENCES.search(message) is not None


def code_of(message: str) -> int:
    """CUDA's code that an exception's text stands for; 0 where it stands for none."""
    return next((code for code, pattern in _CODES if pattern.search(message)), 0)


def first_line(message: str) -> str:
    """The first line of a message, without torch's advice below it."""
    return message.strip().partition("\n")[0].strip()
