"""What every record has, and the parts that several kinds share.

The files of this package do without `from __future__ import annotations`: msgspec would have to parse every annotation
again each time the tool starts.
"""

from typing import Annotated

from msgspec import Meta, Struct

Pointer = Annotated[str, Meta(description="address or raw handle, hexadecimal")]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Bounded, so that arithmetic on times cannot overflow whatever a damaged or hostile trace says."""
Frame = tuple[int, int, str, int | None, int | None, int | None]
"""(source id, line, qualified function, end line, column, end column); columns start at 0, None where unknown."""


# No record is part of a cycle: the garbage collector need not know a million of them.
class Record(Struct, tag_field="k", frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What every record has."""

    q: Int64
    """Sequence number within the process."""
    t: Int64
    """CLOCK_MONOTONIC, nanoseconds."""
    tid: Int64 = 0
    """Native thread id of the writer; 0 where it is not known."""


class Tensor(Struct, frozen=True, omit_defaults=True, gc=False):
    """A tensor argument or result of an operator."""

    at: str
    """Where it stood: "0", "1.0" (second argument, first element), "out" (keyword), "r0" (first result)."""
    ptr: Pointer
    """Address of its storage."""
    size: int
    """Bytes of its storage."""
    dev: str
    """Device, "cuda:0" or "cpu"."""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    offset: int = 0
    """Bytes from the storage's start to the first element."""
    pinned: bool = False
    """Page-locked host memory."""
    written: bool = False
    """The operator writes it (its schema says so)."""
    storage: int = 0
    """Id of the storage object, where one was given; 0 otherwise."""


class Raised(Struct, frozen=True, omit_defaults=True, gc=False):
    """An exception, without its stack."""

    type: str
    """Qualified type name, `builtins.` left out."""
    message: str
    """At most 2,000 characters."""
    code: int = 0
    """CUDA's error code, from the exception's attribute or its text; 0 where there is none."""


class Link(Struct, frozen=True, omit_defaults=True, gc=False):
    """One exception of a chain."""

    type: str
    message: str
    stack: int = 0
    """Stack at which it was raised, innermost frame first (from its traceback)."""
    code: int = 0
    how: str = "context"
    """How it hangs on the exception before it in the list: `context` or `cause`."""
