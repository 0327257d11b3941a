"""CUDA's error codes, and the exceptions that PyTorch makes of them.

Texts are cudaGetErrorString's; that they match what PyTorch prints was seen on an H200 (torch 2.11.0+cu130).
"""

from __future__ import annotations

import re

import torch

SUCCESS = 0
INVALID_VALUE = 1
INVALID_DEVICE = 101
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
ILLEGAL_STATE = 401
ILLEGAL_ADDRESS = 700
CAPTURE_UNSUPPORTED = 900
CAPTURE_INVALIDATED = 901
CAPTURE_MERGE = 902
CAPTURE_UNMATCHED = 903
CAPTURE_UNJOINED = 904
CAPTURE_ISOLATION = 905
CAPTURE_IMPLICIT = 906
CAPTURED_EVENT = 907
CAPTURE_WRONG_THREAD = 908
GRAPH_EXEC_UPDATE_FAILURE = 910

_TEXTS = {
    INVALID_VALUE: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    34: ("cudaErrorStubLibrary", "CUDA driver is a stub library"),
    INVALID_DEVICE: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    INVALID_CONTEXT: ("cudaErrorDeviceUninitialized", "invalid device context"),
    INVALID_HANDLE: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    ILLEGAL_STATE: (
        "cudaErrorIllegalState",
        "the operation cannot be performed in the present state",
    ),
    600: ("cudaErrorNotReady", "device not ready"),
    ILLEGAL_ADDRESS: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    712: ("cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"),
    801: ("cudaErrorNotSupported", "operation not supported"),
    CAPTURE_UNSUPPORTED: ("cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"),
    CAPTURE_INVALIDATED: (
        "cudaErrorStreamCaptureInvalidated",
        "operation failed due to a previous error during capture",
    ),
    CAPTURE_MERGE: ("cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"),
    CAPTURE_UNMATCHED: ("cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"),
    CAPTURE_UNJOINED: ("cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"),
    CAPTURE_ISOLATION: ("cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"),
    CAPTURE_IMPLICIT: (
        "cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    CAPTURED_EVENT: (
        "cudaErrorCapturedEvent",
        "operation not permitted on an event last recorded in a capturing stream",
    ),
    CAPTURE_WRONG_THREAD: (
        "cudaErrorStreamCaptureWrongThread",
        "attempt to terminate a thread-local capture sequence from another thread",
    ),
    GRAPH_EXEC_UPDATE_FAILURE: (
        "cudaErrorGraphExecUpdateFailure",
        (
            "the graph update was not performed because it included changes which violated constraints specific to "
            "instantiated graph update"
        ),
    ),
}


def error_name(code: int) -> str:
    """`cudaErrorStreamCaptureUnsupported` of 900."""
    return _TEXTS[code][0] if code in _TEXTS else f"cudaError({code})"


def driver_error_name(code: int) -> str:
    """`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` of 900: the driver API's spelling."""
    words = _TEXTS[code][0].removeprefix("cudaError") if code in _TEXTS else str(code)
    return "CUDA_ERROR_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).upper()


def cuda_error(code: int) -> Exception:
    """The exception that C10_CUDA_CHECK throws for `code`, as Python sees it."""
    name, text = _TEXTS.get(code, (f"cudaError({code})", "unknown error"))
    lines = [f"CUDA error: {text}"]
    if code == INVALID_DEVICE:
        lines.append("GPU device may be out of range, do you have enough GPUs?")
    lines += [
        (
            f"Search for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
            "information."
        ),
        (
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect."
        ),
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ]
    error = torch.AcceleratorError("\n".join(lines) + "\n")
    error.error_code = code  # C++ sets it the same way
    return error
