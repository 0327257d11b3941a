"""Exceptions for hand-written traces, as a recorder tells them."""

from __future__ import annotations

from typing import TypeAlias

from cudagraph_doctor.trace.events import Raised

Error: TypeAlias = "Raised | str | tuple[str, str]"
"""`"ValueError: text"`, `("ValueError", "text")`, or a `Raised`."""

_TEXTS = {
    1: "invalid argument",
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    902: "operation would result in a merge of separate capture sequences",
    903: "capture was not ended in the same stream as it began",
    904: "capturing stream has unjoined work",
    905: "dependency created on uncaptured work in another stream",
    906: "operation would make the legacy stream depend on a capturing blocking stream",
    907: "operation not permitted on an event last recorded in a capturing stream",
    908: "attempt to terminate a thread-local capture sequence from another thread",
}


def cuda_error(code: int) -> Raised:
    """The exception that torch raises for a CUDA error."""
    return Raised(type="torch.AcceleratorError", message=f"CUDA error: {_TEXTS.get(code, 'error')}", code=code)


def raised(error: Error | None) -> Raised | None:
    """The record of an error given in any of its short forms."""
    if error is None or isinstance(error, Raised):
        return error
    kind, message = error if isinstance(error, tuple) else error.partition(": ")[::2]
    return Raised(type=kind, message=message)
