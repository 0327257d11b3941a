"""The wheel: with the native probe where there is a C compiler, without it, and still a wheel, where there is none."""

import os
import shutil
import subprocess
import sys
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
    return made.name, zipfile.ZipFile(made).namelist()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the native probe is for Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_one_wheel_for_every_python(tmp_path):
    name, files = wheel(tmp_path)
    assert "-py3-none-linux" in name
    assert PROBE in files


def test_no_compiler_is_no_obstacle(tmp_path):
    _name, files = wheel(tmp_path, CC=str(tmp_path / "no-compiler"))
    assert PROBE not in files
    assert "cudagraph_doctor/probe/native_loader.py" in files
