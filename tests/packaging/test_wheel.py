"""The wheel: with the native probe where there is a C compiler, without it, and still a wheel, where there is none."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"
PROBE = "cudagraph_doctor/probe/native/_probe.so"


def wheel(tmp_path, **environment):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "cudagraph_doctor", source / "cudagraph_doctor", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        cwd=source,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    [made] = tmp_path.glob("*.whl")
    return made


def names(made):
    with zipfile.ZipFile(made) as archive:
        return archive.namelist()


def record_with(start, folder, code, **environment):
    """Runs a Python with the variable that asks for a trace; the records that it left, by process."""
    done = subprocess.run(
        [*start, "-c", code],
        cwd=folder,
        env={**os.environ, "CUDAGRAPH_DOCTOR_TRACE": "here", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    traces = [path.read_text().splitlines() for path in (folder / "here").glob("*.jsonl")]
    return done, [[json.loads(line) for line in lines] for lines in traces]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the native probe is for Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_one_wheel_for_every_python(tmp_path):
    made = wheel(tmp_path)
    assert "-py3-none-linux" in made.name
    assert PROBE in names(made)


def test_no_compiler_is_no_obstacle(tmp_path):
    files = names(wheel(tmp_path, CC=str(tmp_path / "no-compiler")))
    assert PROBE not in files
    assert "cudagraph_doctor/probe/native_loader.py" in files


def test_installed_from_the_wheel_the_variable_alone_records(tmp_path):
    made = wheel(tmp_path, CC=str(tmp_path / "no-compiler"))
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    [site_packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(site_packages)
    assert (site_packages / "cudagraph_doctor.pth").is_file()
    done, traces = record_with([tmp_path / "venv" / "bin" / "python"], tmp_path, "print(3)\n1 / 0")
    assert done.stdout == "3\n"
    assert "cudagraph_doctor" not in done.stderr
    [records] = traces
    assert records[0]["how"] == "env"
    assert [record["k"] for record in records][-2:] == ["exception", "seal"]


@pytest.fixture
def site_folder(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copy(ROOT / "cudagraph_doctor" / "probe" / "cudagraph_doctor.pth", folder)
    return folder


def test_the_start_file_starts_one_recorder(tmp_path, site_folder):
    code = f"import site\nfor _ in range(2): site.addsitedir({str(site_folder)!r})\nimport cudagraph_doctor.auto"
    _done, traces = record_with([sys.executable], tmp_path, code, PYTHONPATH=str(ROOT))
    [records] = traces
    assert [record["k"] for record in records].count("header") == 1


def test_the_start_file_leaves_a_launched_target_to_the_door(tmp_path, site_folder):
    code = f"import site, sys; site.addsitedir({str(site_folder)!r}); print('cudagraph_doctor.probe.bootstrap' in sys.modules)"
    config = json.dumps({"trace": str(tmp_path / "here")})
    done, traces = record_with([sys.executable], tmp_path, code, PYTHONPATH=str(ROOT), CUDAGRAPH_DOCTOR_CONFIG=config)
    assert (done.stdout, traces) == ("False\n", [])


def test_the_start_file_does_nothing_without_the_variable(tmp_path, site_folder):
    code = f"import site, sys; site.addsitedir({str(site_folder)!r}); print('cudagraph_doctor' in sys.modules)"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CUDAGRAPH_DOCTOR")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_the_start_file_survives_a_broken_installation(tmp_path, site_folder):
    (site_folder / "cudagraph_doctor").mkdir()
    (site_folder / "cudagraph_doctor" / "__init__.py").write_text("raise RuntimeError('broken')")
    code = f"import sys; sys.path.insert(0, {str(site_folder)!r}); import site; site.addsitedir({str(site_folder)!r})"
    done, traces = record_with([sys.executable], tmp_path, code)
    assert (done.returncode, done.stderr, traces) == (0, "", [])
