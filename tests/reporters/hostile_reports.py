"""Text as it comes from files that nobody foresaw."""

from __future__ import annotations

from hypothesis import strategies as st

from cudagraph_doctor.findings import Consequence, Fix, Location, Runs, Suppression
from cudagraph_doctor.report import CaptureInfo, Exit, Gate, Limit, Notice, Roots, Violation

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=60) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        "</script></pre><img src=x onerror=alert(1)>",
        "]]><x>&amp;",
        "::error file=x::y\n::stop-commands::z",
        "a\r\nb%0A",
        "| a | `b` | ``c``",
        "[x](http://y) @someone #1 **b**",
        "\x00\x1b[31m\x9b\u202e\u2028\ufffe\uffff\udcff\ud800",
        "C:\\proj\\src\\a.py",
        "../../etc/passwd",
        "//server/share/a.py",
        "site:torch/_tensor.py",
        "aten::item",
        "<string>",
        "?",
        "汉字/é.py",
        "{0} {1}",
    ]
)
NUMBERS = st.integers(-(2**70), 2**70)


@st.composite
def reports(draw, report_with, finding):
    text = TEXTS
    place = Location(
        draw(text), draw(NUMBERS), draw(NUMBERS), draw(st.integers(-5, 2**40)), draw(st.integers(-5, 2**40)),
        draw(text), draw(text), draw(text), draw(st.sampled_from([None, 1, 2])),
    )  # fmt: skip
    one = finding(
        message=draw(text),
        remedy=draw(text),
        location=draw(st.sampled_from([place, None])),
        chain=(place, place),
        related=(place,),
        consequences=(Consequence(draw(text), draw(text), place), Consequence(draw(text), 901)),
        fix=Fix(draw(text), draw(NUMBERS), draw(NUMBERS), draw(text), 1),
        aftermath=(draw(text),),
        fingerprint=draw(st.sampled_from(["", "0123456789abcdef"])),
        capture=1,
        count=draw(st.integers(0, 10**9)),
        trigger=draw(text),
        state=draw(st.sampled_from(["new", "known", "suppressed"])),
        suppression=draw(st.sampled_from([None, Suppression("inline", draw(text))])),
        runs=draw(st.sampled_from([None, Runs(1, 3, 0.1, 0.8)])),
    )
    return report_with(
        (one, finding(location=place), finding()),
        source=draw(text),
        argv=(draw(text), "a.py"),
        exit=Exit(draw(st.sampled_from([0, 1, None])), draw(st.sampled_from([None, draw(text)])), draw(text)),
        limits=(Limit(draw(text), draw(text), place, incomplete=draw(st.booleans())),),
        captures=(CaptureInfo(1, 0, "failed", 3, place, 4, draw(text)),),
        roots=draw(st.sampled_from([Roots(), Roots("/repo/sub", "/repo"), Roots("C:\\proj", "C:\\proj")])),
        gate=Gate(
            baseline=draw(st.sampled_from([None, draw(text)])),
            violations=(Violation(draw(text), place), Violation(draw(text))),
            notices=(Notice(draw(text), place),),
            exit_code=draw(st.sampled_from([None, 0, 1, 4])),
            meaning=draw(text),
        ),
    )
