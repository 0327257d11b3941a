"""Checkers on traces with holes: any record may be missing, and nothing may stop them or make up a line."""

import pathlib
import random

import pytest

from cudagraph_doctor.checkers.capture_status import CaptureStatus
from cudagraph_doctor.checkers.module_loading import ModuleLoading
from cudagraph_doctor.session.build import build_from
from cudagraph_doctor.trace.reader import TraceReader

RECORDED = sorted((pathlib.Path(__file__).parents[2] / "fixtures" / "traces" / "python").glob("*_bad.jsonl.gz"))
ALWAYS = {"header", "evidence"}


def records_of(path):
    return list(TraceReader(path))


@pytest.mark.parametrize("path", RECORDED[::4], ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_missing_records(path):
    records = records_of(path)
    choose = random.Random(path.name)
    for share in (0.05, 0.3, 0.6):
        kept = [r for r in records if getattr(r.__struct_config__, "tag", "") in ALWAYS or choose.random() > share]
        session = build_from(kept)
        for checker in (CaptureStatus(), ModuleLoading()):
            for finding in checker.check(session):
                assert finding.message
                assert finding.location is None or finding.location.line >= 1
                assert all(number > 0 for number in finding.evidence)
