"""Whose line is it? The frames of a recorded stack as places to show.

A frame is library (torch, CUDA, the standard library, generated code), third party (another installed distribution) or
the user's. The line a finding names is the innermost user frame, else the innermost third-party frame. `--own` makes a
distribution or a folder the user's own.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_LIBRARY, ROLE_THIRD_PARTY, ROLE_USER, SOURCE_LIMIT
from cudagraph_doctor.findings import Location

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.trace.events import Frame, Header, Source

_SITE_FOLDERS = ("/site-packages/", "/dist-packages/")


def location(session: Session, stack: int) -> Location | None:
    """The line a finding names; None where no frame of the user or of a third party is on the stack."""
    frames, named = _split(session, stack)
    return place(session, frames[named]) if named is not None else None


def chain(session: Session, stack: int) -> tuple[Location, ...]:
    """What the named line called, outermost first: the frames below it."""
    frames, named = _split(session, stack)
    below = frames[:named] if named is not None else frames
    return tuple(place(session, frame) for frame in reversed(below))


def callers(session: Session, stack: int) -> tuple[Location, ...]:
    """The user frames above the named line, innermost first."""
    frames, named = _split(session, stack)
    if named is None:
        return ()
    return tuple(place(session, frame) for frame in frames[named + 1 :] if role(session, frame[0]) == ROLE_USER)


def role(session: Session, source: int) -> str:
    """Whose file a source is, after `--own`. A file that was never recorded counts as a library."""
    found = session.sources.get(source)
    if found is None:
        return ROLE_LIBRARY
    if found.role == ROLE_USER or not session.own:
        return found.role
    return ROLE_USER if any(_owns(own, found) for own in session.own) else found.role


def show_path(header: Header, path: str) -> str:
    """A recorded path as the user would write it: relative to the working directory where it lies below it."""
    root, separator, rest = path.partition(":")
    if not separator:
        return path
    if root == "cwd":
        return rest
    if root == "target":
        return _script_folder(header) + rest
    if root == "abs":
        return rest
    return path


def text_of(source: Source) -> str | None:
    """The recorded text of a source file, at most `_wire.SOURCE_LIMIT` bytes; None where it is missing or damaged."""
    if source.text is None:
        return None
    try:
        packed = base64.b64decode(source.text, validate=True)
        # Bounded: a hostile trace may hold a small text that unpacks to gigabytes.
        return zlib.decompressobj().decompress(packed, SOURCE_LIMIT).decode("utf-8", errors="replace")
    except (binascii.Error, ValueError, zlib.error):
        return None


def _split(session: Session, stack: int) -> tuple[tuple[Frame, ...], int | None]:
    """The frames of a stack, innermost first, and the index of the one that a finding names."""
    found = session.stacks.get(stack) if stack else None
    if found is None:
        return (), None
    third_party = None
    for index, frame in enumerate(found.frames):
        whose = role(session, frame[0])
        if whose == ROLE_USER:
            return found.frames, index
        if whose == ROLE_THIRD_PARTY and third_party is None:
            third_party = index
    return found.frames, third_party


def place(session: Session, frame: Frame) -> Location:
    """One frame as a place to show."""
    source_id, line, function, end_line, column, end_column = frame
    source = session.sources.get(source_id)
    return Location(
        file=show_path(session.header, source.path) if source is not None else "?",
        line=line,
        end_line=end_line,
        column=column,
        end_column=end_column,
        function=function or None,
        code=session.line(source_id, line),
        source=source_id if source is not None else None,
    )


def _script_folder(header: Header) -> str:
    """Folder of the target script as the user wrote it: `scripts/` for `run scripts/decode.py`."""
    for argument in header.argv:
        if argument.endswith(".py"):
            folder, slash, _ = argument.replace("\\", "/").rpartition("/")
            return f"{folder}/" if slash and folder and not folder.startswith("/") and ":" not in folder else ""
    return ""


def _owns(own: str, source: Source) -> bool:
    """Whether `--own OWN` names this source: by distribution, by module, or by path."""
    if source.dist and _normal(own) == _normal(source.dist):
        return True
    if source.module == own or source.module.startswith(own + "."):
        return True
    _root, _, path = source.path.partition(":")
    wanted = own.replace("\\", "/").rstrip("/").removeprefix("./")
    for folder in _SITE_FOLDERS:  # such paths are recorded relative to the root `site`
        wanted = wanted.rpartition(folder)[2]
    return bool(wanted) and (path == wanted or path.startswith(wanted + "/"))


def _normal(distribution: str) -> str:
    """PEP 503: names that differ in case, dots, dashes and underscores are one."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
