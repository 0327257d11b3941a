"""Hand-built reports: every reporter is tested on the same ones."""

from __future__ import annotations

import os
import sys

import pytest

from cudagraph_doctor.findings import (
    CheckerState,
    Confidence,
    Consequence,
    Evidence,
    Finding,
    Fix,
    Location,
    Rule,
    RuleState,
    Severity,
)
from cudagraph_doctor.report import (
    CaptureInfo,
    DeviceInfo,
    EvidenceSpan,
    Exit,
    Limit,
    ProcessInfo,
    Report,
)

sys.path.insert(0, os.path.dirname(__file__))  # for hostile_reports: importlib mode has no package here

SOURCE = """\
import torch


def generate(model, ids, eos):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        logits = model(ids)
        nxt = logits.argmax(-1)
        if nxt.item() == eos:
            return None
        ids.copy_(nxt)
    g.replay()
    return ids
"""

SYNC = Rule("CGD101", "host-sync-in-capture", Severity.ERROR, "The host waits.", "text")
MISSING = Rule("CGD113", "work-not-captured", Severity.ERROR, "Work is missing.", "text")


def make_report(findings: tuple[Finding, ...] = (), source: str = SOURCE, **changes: object) -> Report:
    """A report of one process with one good capture; any field can be changed."""
    fields: dict[str, object] = {
        "argv": ("decode.py", "--batch", "4"),
        "exit": Exit(returncode=0),
        "processes": (
            ProcessInfo(0, 4242, ("decode.py",), Exit(0), (EvidenceSpan("python"),), host="gpu1", sources={1: source}),
        ),
        "device": DeviceInfo("cuda", "python", "NVIDIA H200", "580.159", "2.11.0+cu130"),
        "captures": (CaptureInfo(1, 0, "completed", 128, Location("decode.py", 6), 309),),
        "checkers": (CheckerState("capture_status", "ran", None, (RuleState("CGD101", checked=True),)),),
        "findings": findings,
        "limits": (),
        "tool_version": "0.1.0",
    }
    return Report(**(fields | changes))  # type: ignore[arg-type]


def make_finding(**changes: object) -> Finding:
    """A proven CGD101 at decode.py:9; any field can be changed."""
    fields: dict[str, object] = {
        "rule": SYNC,
        "level": Severity.ERROR,
        "confidence": Confidence.PROVEN,
        "message": "`nxt.item()` waits for the GPU.",
        "location": Location("decode.py", 9, 9, 11, 21, "generate", "if nxt.item() == eos:", None, 1),
        "remedy": "Read `nxt` after the replay.",
        "process": 0,
        "trigger": "aten::_local_scalar_dense",
    }
    return Finding(**(fields | changes))  # type: ignore[arg-type]


@pytest.fixture
def report_with():
    return make_report


@pytest.fixture
def finding():
    return make_finding


@pytest.fixture
def clean():
    return make_report()


@pytest.fixture
def broken():
    """A failed capture with everything a finding can carry, a second finding, and things not checked."""
    sync = make_finding(
        message="`nxt.item()` waits for the GPU while the stream is capturing.",
        chain=(
            Location("decode.py", 9, function="generate"),
            Location("site:torch/_tensor.py", 1012, function="Tensor.item"),
            Location("aten::_local_scalar_dense", 0),
        ),
        related=(Location("decode.py", 6, function="generate", note="the capture began here"),),
        consequences=(
            Consequence("operation failed due to a previous error during capture", 901, Location("decode.py", 11)),
            Consequence("operation failed due to a previous error during capture", 901, Location("decode.py", 12)),
            Consequence("CUDA error: operation not permitted when stream is capturing", "AcceleratorError"),
        ),
        remedy="Keep the comparison on the device, and read the result after the replay.",
        fix=Fix("decode.py", 9, 10, "        done.copy_(nxt == eos)\n", 1),
        evidence=(410, 412),
        capture=1,
        aftermath=(
            "the capture stream is still current: `torch.cuda.set_stream(torch.cuda.default_stream())`",
            "the graph's pool is kept: `del g; torch.cuda.empty_cache()`",
        ),
        fingerprint="0123456789abcdef",
    )
    missing = make_finding(
        rule=MISSING,
        level=Severity.WARNING,
        confidence=Confidence.LIKELY,
        message="`weights.add_(1)` ran on stream 7, which is not part of the capture: it is missing from every replay.",
        location=Location("pkg/layers/attention/model_definition.py", 131, function="Model.forward", code="w.add_(1)"),
        remedy="Fork `side` from the capture stream first.",
        evidence_level=Evidence.DRIVER,
        count=12,
    )
    return make_report(
        (sync, missing),
        exit=Exit(1, None, "AcceleratorError: CUDA error: operation not permitted when stream is capturing"),
        captures=(
            CaptureInfo(1, 0, "failed", 0, Location("decode.py", 6)),
            CaptureInfo(2, 0, "completed", 128, Location("decode.py", 6), 309, "batch=4"),
        ),
        checkers=(
            CheckerState(
                "capture_status",
                "ran",
                None,
                (
                    RuleState("CGD101", checked=True),
                    RuleState("CGD105", checked=False, reason="needs driver evidence"),
                    RuleState("CGD104", checked=False, reason="needs driver evidence"),
                ),
            ),
            CheckerState("house_rules", "failed", "KeyError: 'x' in house_rules 1.2 of acme-checks"),
            CheckerState("compiled", "skipped", "torch.compile was not used"),
        ),
        limits=(
            Limit("3 torn lines", "the process was killed while it wrote"),
            Limit("process 77", "started with `python -I`: the probe could not follow", incomplete=True),
        ),
    )
