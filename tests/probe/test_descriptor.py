"""The descriptor stays ours: closed, replaced, unlinked, it finds its file again and touches no other."""

from __future__ import annotations

import os

import pytest

from cudagraph_doctor.probe import descriptor
from cudagraph_doctor.probe.descriptor import Descriptor


@pytest.fixture(params=[True, False], ids=["tag", "fstat only"])
def file(request, tmp_path, monkeypatch):
    if not request.param:
        monkeypatch.setattr(descriptor, "F_SETSIG", 9999)
    made = Descriptor(str(tmp_path / "deep" / "file")) if (tmp_path / "deep").mkdir() is None else None
    assert made is not None
    assert made._tagged is request.param
    yield made
    made.close()


def held(file: Descriptor) -> bytes:
    with open(file.path, "rb") as opened:
        return opened.read()


def test_number_is_high_and_not_inherited(file) -> None:
    assert file.fd >= 200
    assert not os.get_inheritable(file.fd)


def test_closed_descriptor_is_opened_again(file) -> None:
    file.write(b"one")
    os.close(file.fd)
    file.write(b"two")
    assert held(file) == b"onetwo"


def test_replaced_descriptor_is_left_alone(file, tmp_path) -> None:
    file.write(b"one")
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    number = file.fd
    os.dup2(theirs, number)
    file.write(b"two")
    assert file.fd != number
    file.close()
    assert os.fstat(number).st_ino == os.fstat(theirs).st_ino, "closing ours closed theirs"
    os.close(number)
    os.close(theirs)
    assert (tmp_path / "theirs").read_bytes() == b""
    assert held(file) == b"onetwo"


def test_unlinked_file_is_written_anew_with_all_it_held(file) -> None:
    file.write(b"one")
    number = file.fd
    os.unlink(file.path)
    os.rmdir(os.path.dirname(file.path))
    file.recover()
    file.write(b"two")
    assert held(file) == b"onetwo"
    assert file.fd == number


def test_file_of_somebody_else_under_our_name_is_left_alone(file) -> None:
    file.write(b"one")
    os.close(file.fd)
    os.unlink(file.path)
    with open(file.path, "w") as theirs:
        theirs.write("theirs")
    with pytest.raises(OSError):
        file.write(b"two")
    assert held(file) == b"theirs"


def test_existing_file_is_never_taken_over(tmp_path) -> None:
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(FileExistsError):
        Descriptor(str(tmp_path / "file"))


def test_link_is_not_followed(tmp_path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Descriptor(str(tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()
