from __future__ import annotations

import io
import json
import os
import stat

import pytest

from cudagraph_doctor.errors import OutputError
from cudagraph_doctor.reporters.files import check_writable, write_file
from cudagraph_doctor.reporters.formats import Format, write


@pytest.mark.parametrize("form", list(Format))
def test_every_format_can_be_written(broken, form):
    stream = io.StringIO()
    write(broken, form, stream)
    assert "CGD101" in stream.getvalue()


def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(clean, tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(0o640)
    with path.open() as reader:
        write_file(clean, Format.JSON, str(path))
        assert reader.read() == "old"
    assert json.loads(path.read_text())["version"] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_failed_report_leaves_the_old_file(clean, tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_text("old")

    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cudagraph_doctor.reporters.json_v1.write", full_disk)
    with pytest.raises(OutputError, match="No space left"):
        write_file(clean, Format.JSON, str(path))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_link_stays_a_link(clean, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_file(clean, Format.JSON, str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "target").read_text())["version"] == 1


def test_a_device_is_written_directly(clean):
    write_file(clean, Format.TABLE, os.devnull)
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("make", ["folder", "missing/report.json"])
def test_a_bad_place_is_refused_before_the_run(tmp_path, make):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="cannot write the report"):
        check_writable([str(tmp_path / make)])
