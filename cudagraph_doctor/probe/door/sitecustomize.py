# ruff: noqa: ANN202
"""The door through which the recorder enters the target: the one file on PYTHONPATH.

Python imports `sitecustomize` before the target's first line, in the target and in all its Python children. This file
takes its own folder off `sys.path`, starts the recorder, and runs the sitecustomize that it shadows, if there is one.
It may be met by any Python that the target starts, so it is written for all of them; only 3.11 and newer are recorded.
"""

import sys


def _start():  # type: ignore[no-untyped-def]
    import os

    door = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != door and os.path.abspath(entry) != door]
    sys.path_importer_cache.pop(door, None)
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
        return None
    package = os.path.dirname(os.path.dirname(door))
    if "cudagraph_doctor" not in sys.modules:
        # The package alone, not its neighbours: nothing else of the tool's environment may be seen from here.
        above = os.path.dirname(package)
        sys.path.insert(0, above)
        try:
            import cudagraph_doctor  # noqa: F401  # imports nothing itself
        finally:
            sys.path.remove(above)
            sys.path_importer_cache.pop(above, None)
    from cudagraph_doctor.probe import bootstrap

    bootstrap.start_from_environment()
    return bootstrap


try:
    _bootstrap = _start()  # type: ignore[no-untyped-call]
except Exception:  # the target runs in any case; the launcher says that there is no trace
    _bootstrap = None

del sys.modules["sitecustomize"]
try:
    # The one that stands behind us. Where there is none, site takes the ImportError for what it is.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
finally:
    if _bootstrap is not None:
        _bootstrap.after_site()
