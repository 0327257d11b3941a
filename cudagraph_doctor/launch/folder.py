"""The folder of a run: one file a process, nothing of another run."""

from __future__ import annotations

import contextlib
import os
import time

from cudagraph_doctor._wire import TRACE_SUFFIX
from cudagraph_doctor.errors import UsageError

DEFAULT = "cudagraph-doctor-trace"


def make(asked: str | None, target: str) -> tuple[str, str]:
    """Makes the folder of a run.

    Args:
        asked: what `--trace` named; None: a fresh folder below `cudagraph-doctor-trace`, or below the system's
            temporary folder where the current one is read-only.
        target: name of the target, for the folder's name.

    Returns:
        Its absolute path, and why nothing can be written there ("" if it can).

    Raises:
        UsageError: the folder is a file, or holds another run's trace.
    """
    if asked is not None:
        return _asked(os.path.abspath(asked))
    stem = "".join(c if c.isalnum() or c in "._" else "_" for c in os.path.basename(target))[:40] or "run"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{os.getpid()}"
    above = os.path.join(os.getcwd(), DEFAULT)
    if os.path.exists(os.path.join(above, name)):  # another run of this process, in the same second
        name = f"{name}-{time.monotonic_ns() % 10**9:09}"
    folder = os.path.join(above, name)
    fresh = not os.path.exists(above)
    if not _unwritable(folder):
        if fresh:
            _keep_out_of_git(above)
        return folder, ""
    import tempfile

    fallback = os.path.join(tempfile.gettempdir(), DEFAULT, name)
    return fallback, _unwritable(fallback)


def _asked(folder: str) -> tuple[str, str]:
    try:
        held = os.listdir(folder)
    except FileNotFoundError:
        held = []
    except NotADirectoryError:
        raise UsageError(f"--trace {folder}: a file stands there", "Name a folder.") from None
    except OSError as error:
        return folder, error.strerror or str(error)
    if any(name.endswith((TRACE_SUFFIX, TRACE_SUFFIX + ".gz")) for name in held):
        raise UsageError(f"--trace {folder}: it holds the trace of another run", "Name another folder, or remove it.")
    return folder, _unwritable(folder)


def _keep_out_of_git(folder: str) -> None:
    """Traces hold source text and arguments: nobody should commit them by accident."""
    with contextlib.suppress(OSError), open(os.path.join(folder, ".gitignore"), "x", encoding="ascii") as file:
        file.write("*\n")


def _unwritable(folder: str) -> str:
    """Why nothing can be written into a folder; "" if it can."""
    probe = os.path.join(folder, ".writable")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(probe, "wb") as file:
            file.write(b"\n")
    except OSError as error:
        return error.strerror or str(error)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(probe)
    return ""
