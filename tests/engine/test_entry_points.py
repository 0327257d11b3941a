import subprocess
import sys

import pytest

from cudagraph_doctor.engine.entry_points import EntryPoint, entry_points

GROUP = "cudagraph_doctor.checkers"
POINT = f"[console_scripts]\nx = y:z\n\n[{GROUP}]\nextra = extra.checkers:Extra\n"


def install(folder, distribution, text=POINT, suffix=".dist-info"):
    info = folder / f"{distribution}{suffix}"
    info.mkdir(parents=True)
    name, _, version = distribution.partition("-")
    (info / ("METADATA" if suffix == ".dist-info" else "PKG-INFO")).write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(text)


def names():
    return [(point.name, point.value, package) for point, package, _ in entry_points(GROUP, but="cudagraph-doctor")]


@pytest.mark.parametrize("suffix", [".dist-info", ".egg-info"])
def test_a_plugin_on_the_path_is_found(tmp_path, monkeypatch, suffix):
    install(tmp_path, "extra-1.0", suffix=suffix)
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == [("extra", "extra.checkers:Extra", "extra")]


def test_a_plugin_whose_name_begins_with_ours_is_found(tmp_path, monkeypatch):
    install(tmp_path, "cudagraph_doctor_extra-1.0")
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == [("extra", "extra.checkers:Extra", "cudagraph_doctor_extra")]


def test_our_own_metadata_is_not_asked(tmp_path, monkeypatch):
    install(tmp_path, "cudagraph_doctor-0.0")
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == []


@pytest.mark.parametrize(("text", "imported"), [("[console_scripts]\nx = y:z\n", False), (POINT, True)])
def test_importlib_metadata_is_imported_for_plugins_only(tmp_path, text, imported):
    install(tmp_path, "extra-1.0", text)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "from cudagraph_doctor.engine.registry import find; "
        "print(len(find()), 'importlib.metadata' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split()[1] == str(imported)


def test_a_plugin_in_an_archive_is_found(tmp_path, monkeypatch):
    import zipfile

    archive = tmp_path / "extra.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("extra-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
        file.writestr("extra-1.0.dist-info/entry_points.txt", POINT)
    monkeypatch.syspath_prepend(archive)
    assert names() == [("extra", "extra.checkers:Extra", "extra")]


def test_a_nested_attribute_is_loaded():
    assert EntryPoint("x", "os:path.join").load() is __import__("os").path.join
    with pytest.raises(AttributeError):
        EntryPoint("x", "os:nothing").load()
