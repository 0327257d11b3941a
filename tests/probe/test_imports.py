"""Calling back after an import leaves the import as it is."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import traceback

import pytest

from cudagraph_doctor.probe.imports import AfterImport


@pytest.fixture
def watcher(tmp_path, monkeypatch):
    before, known = list(sys.meta_path), set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = AfterImport()
    made.start()
    yield made
    sys.meta_path[:] = before
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path):
    root = tmp_path / "watched"
    (root / "sub").mkdir(parents=True)
    (root / "__init__.py").write_text("from watched import part\nimport watched.sub\nDONE = True\n")
    (root / "part.py").write_text("LOADER = __spec__.loader\nassert __loader__ is LOADER\n")
    (root / "sub" / "__init__.py").write_text("")
    (root / "data.txt").write_text("resource")
    (root / "later.py").write_text("")
    (root / "broken.py").write_text("def f():\n    raise ValueError('broken')\nf()\n")
    return root


def test_callback_gets_the_complete_module(watcher, package) -> None:
    seen = []
    watcher.watch("watched", lambda module: seen.append((module.__name__, module.DONE)))
    import watched

    assert seen == [("watched", True)]
    assert watched.__spec__.loader is watched.__loader__
    assert type(watched.__loader__).__name__ == "SourceFileLoader"


def test_part_waits_for_its_package(watcher, package) -> None:
    seen = []
    complete = lambda: hasattr(sys.modules["watched"], "DONE")  # noqa: E731
    watcher.watch("watched.part", lambda module: seen.append((module.__name__, complete())))
    watcher.watch("watched", lambda module: seen.append((module.__name__, True)))
    importlib.import_module("watched")
    assert sorted(seen) == [("watched", True), ("watched.part", True)]


def test_part_imported_later_is_told_at_once(watcher, package) -> None:
    seen = []
    watcher.watch("watched.later", lambda module: seen.append(module.__name__))
    importlib.import_module("watched")
    assert seen == []
    importlib.import_module("watched.later")
    assert seen == ["watched.later"]


def test_module_that_is_there_already(watcher, package) -> None:
    importlib.import_module("watched")
    seen = []
    watcher.watch("watched", lambda module: seen.append(module.__name__))
    assert seen == ["watched"]


def test_module_sees_its_real_loader_while_it_runs(watcher, package) -> None:
    watcher.watch("watched.part", lambda module: None)
    part = importlib.import_module("watched.part")
    assert type(part.LOADER).__name__ == "SourceFileLoader"


def test_reload_calls_again(watcher, package) -> None:
    seen = []
    watcher.watch("watched.later", seen.append)
    later = importlib.import_module("watched.later")
    assert importlib.reload(later) is later
    assert seen == [later, later]
    assert type(later.__spec__.loader).__name__ == "SourceFileLoader"


def test_resources_are_found(watcher, package) -> None:
    watcher.watch("watched", lambda module: None)
    from importlib.resources import files

    assert files("watched").joinpath("data.txt").read_text() == "resource"


def test_finding_without_importing(watcher, package) -> None:
    seen = []
    watcher.watch("watched", seen.append)
    spec = importlib.util.find_spec("watched")
    assert spec is not None
    assert spec.origin == str(package / "__init__.py")
    assert spec.loader.get_filename("watched") == spec.origin
    assert spec.loader.is_package("watched")
    assert importlib.util.find_spec("watched_no_such") is None
    assert seen == []


def test_import_that_fails_raises_as_ever_and_may_succeed_later(watcher, package) -> None:
    seen = []
    watcher.watch("watched.broken", seen.append)
    with pytest.raises(ValueError, match="broken") as caught:
        importlib.import_module("watched.broken")
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["<module>", "f"]
    (package / "broken.py").write_text("")
    importlib.invalidate_caches()
    importlib.import_module("watched.broken")
    assert len(seen) == 1


def test_callback_that_fails_does_not_break_later_ones(watcher, package) -> None:
    """Callbacks of the recorder are guarded; the watcher itself must still be in order after one that is not."""
    watcher.watch("watched.later", lambda module: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("watched.later")
    assert watcher._loading == []


TRACEBACK = """
import sys
sys.path.insert(0, {folder!r})
if {watch}:
    from cudagraph_doctor.probe.imports import AfterImport
    watcher = AfterImport()
    watcher.watch("watched.broken", print)
    watcher.start()
import watched.broken
"""


@pytest.mark.parametrize("body", ["1 / 0\n", "import no_such_module_anywhere\n", "def f(:\n"])
def test_traceback_through_an_import_shows_no_frame_of_ours(tmp_path, package, body: str) -> None:
    (package / "broken.py").write_text(body)
    shown = []
    for watch in (False, True):
        script = tmp_path / "script.py"
        script.write_text(TRACEBACK.format(folder=str(tmp_path), watch=watch))
        done = subprocess.run([sys.executable, script], capture_output=True, check=False)
        shown.append([line for line in done.stderr.decode().splitlines() if "import watched" not in line])
    assert shown[1] == [line.replace("watch=False", "watch=True") for line in shown[0]]
    assert any("broken.py" in line for line in shown[0])
