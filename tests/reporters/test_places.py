from __future__ import annotations

import pytest

from cudagraph_doctor.findings import Location
from cudagraph_doctor.report import Roots
from cudagraph_doctor.reporters.places import Region, region, repository_path

POSIX, WINDOWS = Roots("/repo/sub", "/repo"), Roots("C:\\Work\\repo\\sub", "C:\\Work\\repo")


@pytest.mark.parametrize(
    ("roots", "file", "path"),
    [
        (POSIX, "a.py", "sub/a.py"),
        (POSIX, "../b.py", "b.py"),
        (POSIX, "../../outside.py", None),
        (POSIX, "/repo/x/y.py", "x/y.py"),
        (POSIX, "/repository/y.py", None),
        (POSIX, "/etc/passwd", None),
        (POSIX, "site:torch/_tensor.py", None),
        (POSIX, "aten::item", None),
        (POSIX, "<string>", None),
        (POSIX, "odd\\name/a.py", "sub/odd\\name/a.py"),
        (WINDOWS, "pkg\\a.py", "sub/pkg/a.py"),
        (WINDOWS, "c:\\work\\REPO\\b.py", "b.py"),
        (WINDOWS, "D:\\other\\b.py", None),
        (Roots(), "a.py", "a.py"),
        (Roots(), "./x/../a.py", "a.py"),
        (Roots(), "../a.py", None),
        (Roots(), "/a.py", None),
        (Roots("/", "/"), "a.py", "a.py"),
    ],
)
def test_paths_from_the_root_of_the_repository(roots, file, path):
    assert repository_path(roots, file) == path


def test_columns_are_characters_from_one(report_with):
    report = report_with(source="张量 = 甲.item()\n")
    start, end = len("张量 = ".encode()), len("张量 = 甲.item()".encode())
    place = Location("a.py", 1, 1, start, end, source=1)
    assert region(report, 0, place) == Region(1, 1, 6, 14)


@pytest.mark.parametrize("place", [Location("a.py", -3, -9, -1, 5), Location("a.py", 2**70, 0, 3, 2, source=1)])
def test_impossible_numbers_stay_within_what_formats_can_carry(report_with, place):
    found = region(report_with(), 0, place)
    assert 1 <= found.line <= found.end_line < 2**31
    assert found.column is None
