"""Reports in files: several at once, each whole or not there."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from cudagraph_doctor.errors import OutputError
from cudagraph_doctor.reporters.formats import Format, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cudagraph_doctor.report import Report

HINT = "choose another --output FILE or --report FORMAT=FILE"


def write_file(report: Report, form: Format, path: str) -> None:
    """Write one report to a file; see `write_files`."""
    write_files([(report, form, path)])


def write_files(wanted: Sequence[tuple[Report, Format, str]]) -> None:
    """Write reports to files: readers see the old file or the whole new one; none changes before all are written.

    Pipes and devices (`/dev/stdout`) are written directly, after the files.

    Raises:
        OutputError: one cannot be written; no file has changed then.
    """
    import tempfile  # brings random and shutil: not for a report on standard output

    scratches: list[tuple[str, str]] = []
    path = ""
    try:
        for report, form, path in wanted:
            if not _is_regular(path):
                continue
            target = os.path.realpath(path)  # a link stays a link
            handle, scratch = tempfile.mkstemp(prefix=".cudagraph-doctor-", dir=os.path.dirname(target))
            scratches.append((scratch, target))
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
                write(report, form, stream)
            os.chmod(scratch, _mode_for(target))
        for scratch, path in list(scratches):
            os.replace(scratch, path)
            scratches.remove((scratch, path))
        for report, form, path in wanted:
            if not _is_regular(path):
                with open(path, "w", encoding="utf-8", errors="backslashreplace") as stream:
                    write(report, form, stream)
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error
    finally:
        for scratch, _target in scratches:
            with suppress(OSError):
                os.unlink(scratch)


def append_file(path: str, text: str) -> None:
    """Append to a file that belongs to somebody else, as a CI system's job summary does.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error


def check_writable(paths: Iterable[str]) -> None:
    """Fail before the target runs, not after an hour of it.

    Raises:
        OutputError: a path's folder does not exist or is read-only, it is a folder, or two reports have one path.
    """
    seen: dict[str, str] = {}
    for path in paths:
        if not path:
            raise OutputError("a report needs the name of a file", HINT)
        if os.path.isdir(path):
            raise _refusal(path, "it is a folder")
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise _refusal(path, "the folder does not exist")
        if not os.access(path if os.path.exists(path) and not _is_regular(path) else folder, os.W_OK) or (
            os.path.exists(path) and not os.access(path, os.W_OK)
        ):
            raise _refusal(path, "permission denied")
        if real in seen and _is_regular(path):
            raise _refusal(path, "two reports would go there")
        seen[real] = path


def _refusal(path: str, why: str) -> OutputError:
    return OutputError(f"cannot write the report to {path}: {why}", HINT)


def _is_regular(path: str) -> bool:
    """A file, or a name that is free; not a pipe or a device."""
    return not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode)


def _mode_for(target: str) -> int:
    """The mode the file had, or what `open` would have given it (mkstemp's is private)."""
    if os.path.exists(target):
        return stat.S_IMODE(os.stat(target).st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
