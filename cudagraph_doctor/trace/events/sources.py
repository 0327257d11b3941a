"""Where things happened: source files, stacks, native libraries."""

from cudagraph_doctor.trace.events.base import Frame, Pointer, Record


class Source(Record, tag="source", frozen=True, kw_only=True):
    """A source file that stands in a stack, once."""

    id: int
    path: str
    """`root:relative/path`, roots as in `_wire.ROOTS`."""
    role: str
    """Whose file it is, `_wire.ROLES`."""
    dist: str = ""
    """Installed distribution it belongs to."""
    module: str = ""
    hash: str = ""
    """SHA-256 of the text, hexadecimal."""
    text: str | None = None
    """zlib-compressed, base64; for user and third-party files up to 256 KiB."""
    why: str = ""
    """Why there is no text."""


class Stack(Record, tag="stack", frozen=True, kw_only=True):
    """A Python stack, interned: innermost frame first."""

    id: int
    frames: tuple[Frame, ...]
    cut: int = 0
    """Outer frames left out."""


class Library(Record, tag="library", frozen=True, kw_only=True):
    """A mapped shared library, for native return addresses."""

    id: int
    name: str
    base: Pointer = ""
    end: Pointer = ""
