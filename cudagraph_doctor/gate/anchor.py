"""A script that was named by an absolute path, seen from the working directory.

Paths of the target's own files are recorded relative to its folder, which its argument names. `run $PWD/decode.py`, as
CI jobs write it, then gives the same paths, and so the same annotations and fingerprints, as `run decode.py`.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.report import Roots
    from cudagraph_doctor.session.model import Session


def anchor(sessions: Iterable[Session], roots: Roots) -> None:
    """Rewrites the script's argument of each process whose script lies in the repository; changes the sessions."""
    for session in sessions:
        argv = session.header.argv
        at = next((n for n, argument in enumerate(argv) if argument.endswith(".py")), None)
        if at is None or not argv[at].startswith(roots.repository.rstrip("/") + "/"):
            continue
        relative = posixpath.relpath(argv[at], roots.cwd)
        session.header = replace(session.header, argv=(*argv[:at], relative, *argv[at + 1 :]))
