"""CUDA's error code in an exception, without running code of the target.

An exception of the target may carry tensors, and formatting one waits for the GPU and breaks the capture. So a message
is taken only where `str` of it runs nobody's code but the interpreter's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGE_LIMIT = 2000

# cudaGetErrorString's texts, as torch puts them into its exceptions (seen on driver 580, torch 2.11), by a part of
# each that no other text has. 901 stands last: an earlier code in the same text is the cause, 901 its consequence.
_TEXTS = (
    ("operation not permitted when stream is capturing", 900),
    ("would result in a merge of separate capture sequences", 902),
    ("was not ended in the same stream as it began", 903),
    ("capturing stream has unjoined work", 904),
    ("dependency created on uncaptured work in another stream", 905),
    ("legacy stream depend on a capturing blocking stream", 906),
    ("event last recorded in a capturing stream", 907),
    ("terminate a thread-local capture sequence from another thread", 908),
    ("graph update was not performed because it included changes", 910),
    ("an illegal memory access was encountered", 700),
    ("too many resources requested for launch", 701),
    ("invalid resource handle", 400),
    ("CUDA error: invalid argument", 1),
    ("CUDA error: out of memory", 2),
    ("CUDA error: invalid device context", 201),
    ("operation failed due to a previous error during capture", 901),
)

# Names as the runtime and the driver spell them (cuda-bindings shows these, not the texts).
_NAMES = {
    "cudaErrorInvalidValue": 1,
    "CUDA_ERROR_INVALID_VALUE": 1,
    "cudaErrorMemoryAllocation": 2,
    "CUDA_ERROR_OUT_OF_MEMORY": 2,
    "cudaErrorInvalidConfiguration": 9,
    "CUDA_ERROR_INVALID_CONTEXT": 201,
    "cudaErrorDeviceUninitialized": 201,
    "cudaErrorInvalidResourceHandle": 400,
    "CUDA_ERROR_INVALID_HANDLE": 400,
    "cudaErrorIllegalState": 401,
    "CUDA_ERROR_ILLEGAL_STATE": 401,
    "cudaErrorIllegalAddress": 700,
    "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
    "cudaErrorLaunchOutOfResources": 701,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": 701,
    "cudaErrorStreamCaptureUnsupported": 900,
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": 900,
    "cudaErrorStreamCaptureInvalidated": 901,
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": 901,
    "cudaErrorStreamCaptureMerge": 902,
    "CUDA_ERROR_STREAM_CAPTURE_MERGE": 902,
    "cudaErrorStreamCaptureUnmatched": 903,
    "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED": 903,
    "cudaErrorStreamCaptureUnjoined": 904,
    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED": 904,
    "cudaErrorStreamCaptureIsolation": 905,
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": 905,
    "cudaErrorStreamCaptureImplicit": 906,
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": 906,
    "cudaErrorCapturedEvent": 907,
    "CUDA_ERROR_CAPTURED_EVENT": 907,
    "cudaErrorStreamCaptureWrongThread": 908,
    "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD": 908,
    "cudaErrorGraphExecUpdateFailure": 910,
    "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE": 910,
}
_PLAIN = (str, int, float, bool, bytes, type(None))
_INTERPRETERS = {BaseException.__str__, OSError.__str__, KeyError.__str__, ImportError.__str__, SyntaxError.__str__}


def type_name(kind: type) -> str:
    """`RuntimeError`, `torch.AcceleratorError`: qualified, `builtins.` left out."""
    name = kind.__dict__.get("__qualname__") or kind.__name__
    module = kind.__module__
    return str(name) if module == "builtins" or not isinstance(module, str) else f"{module}.{name}"


def is_plain(error: BaseException) -> bool:
    """Whether all arguments of an exception are plain values."""
    return all(type(arg) in _PLAIN for arg in error.args)


def message_of(error: BaseException) -> str:
    """The exception's text, at most 2,000 characters; a stand-in where reading it would run code of the target."""
    kind = type(error)
    args = error.args
    if kind.__str__ in _INTERPRETERS and is_plain(error):
        return str(error)[:MESSAGE_LIMIT]
    shown = (str(arg) if type(arg) in _PLAIN else f"<{type_name(type(arg))}>" for arg in args)
    return " ".join(shown)[:MESSAGE_LIMIT]


def code_in(text: str) -> int:
    """CUDA's error code that a text speaks of, 0 if none."""
    for part, code in _TEXTS:
        if part in text:
            return code
    if "CUDA_ERROR_" in text or "cudaError" in text:
        for name, code in _NAMES.items():
            if name in text:
                return code
    return 0


def code_of(error: BaseException, message: str | None = None) -> int:
    """CUDA's error code of an exception: its `error_code` where torch set it (2.9 and newer), else from its text."""
    own = getattr(error, "__dict__", {}).get("error_code")
    if type(own) is int and own:
        return own
    return code_in(message_of(error) if message is None else message)


def raised(error: BaseException) -> dict[str, Any]:
    """An exception as the trace has it (`Raised`)."""
    message = message_of(error)
    record: dict[str, Any] = {"type": type_name(type(error)), "message": message}
    code = code_of(error, message)
    if code:
        record["code"] = code
    return record
