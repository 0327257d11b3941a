"""The formats there are, and where a report goes."""

from __future__ import annotations

import enum
import os
import stat
from typing import TYPE_CHECKING, TextIO, assert_never

from cudagraph_doctor.errors import OutputError

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report


class Format(enum.Enum):
    """A report format, by the name it has on the command line."""

    TABLE = "table"
    JSON = "json"


def write(report: Report, form: Format, stream: TextIO) -> None:
    """Write a report to an open text stream."""
    match form:
        case Format.TABLE:
            from cudagraph_doctor.reporters import table

            table.write(report, stream)
        case Format.JSON:
            from cudagraph_doctor.reporters import json_v1

            json_v1.write(report, stream)
        case _:
            assert_never(form)


def write_file(report: Report, form: Format, path: str) -> None:
    """Write a report to a file in one step: readers see the old file or the whole new one.

    Pipes and devices (`/dev/stdout`) are written directly.

    Raises:
        OutputError: the file cannot be written.
    """
    import tempfile  # brings random and shutil: not for a report on standard output

    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "w", encoding="utf-8") as stream:
                write(report, form, stream)
            return
        target = os.path.realpath(path)  # a link stays a link
        handle, scratch = tempfile.mkstemp(prefix=".cudagraph-doctor-", dir=os.path.dirname(target))
        try:
            with open(handle, "w", encoding="utf-8") as stream:
                write(report, form, stream)
            os.chmod(scratch, _mode_for(target))
            os.replace(scratch, target)
        except BaseException:
            os.unlink(scratch)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write the report to {path}: {reason}", "choose another --output FILE") from error


def check_writable(path: str) -> None:
    """Fail before the target runs, not after an hour of it.

    Raises:
        OutputError: the folder of `path` does not exist or is read-only, or `path` is a folder.
    """
    hint = "choose another --output FILE"
    if os.path.isdir(path):
        raise OutputError(f"cannot write the report to {path}: it is a folder", hint)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise OutputError(f"cannot write the report to {path}: the folder does not exist", hint)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise OutputError(f"cannot write the report to {path}: permission denied", hint)


def _mode_for(target: str) -> int:
    """The mode the file had, or what `open` would have given it (mkstemp's is private)."""
    if os.path.exists(target):
        return stat.S_IMODE(os.stat(target).st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
