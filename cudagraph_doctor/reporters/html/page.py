"""The page: head, verdict, findings, timelines, heat map, what was not checked."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, TextIO

from cudagraph_doctor.reporters.html import captures, findings, heat
from cudagraph_doctor.reporters.html.element import Html, element, prose
from cudagraph_doctor.reporters.places import where
from cudagraph_doctor.reporters.unseen import unseen
from cudagraph_doctor.reporters.verdict import captures as captures_told
from cudagraph_doctor.reporters.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.report import Notice, Report, Violation


def write(report: Report, stream: TextIO) -> None:
    """Write the whole page."""
    style, script = _resource("style.css"), _resource("script.js")
    stream.write("<!DOCTYPE html>\n")
    stream.write('<html lang="en">')
    policy = (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; img-src data:"
    )
    stream.write(
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            Html('<link rel="icon" href="data:,">'),
            element("title", f"{' '.join(report.argv)[:80]} · cudagraph-doctor"),
            Html(f"<style>{style}</style>"),
        )
    )
    stream.write("\n<body>")
    stream.write(element("a", "Skip to the findings", href="#findings", class_="skip"))
    stream.write(_header(report))
    stream.write("<main>")
    stream.writelines(section + "\n" for section in _sections(report))
    stream.write(f"</main><script>{script}</script></body></html>\n")


def _header(report: Report) -> Html:
    code = report.gate.exit_code
    good = code == 0 if code is not None else not report.findings
    verdict_class = f"verdict {'good' if good else 'bad'}"
    return element(
        "header",
        element("p", "cudagraph-doctor ", report.tool_version, class_="tool"),
        element("h1", element("code", " ".join(report.argv)[:500] or "(command not recorded)")),
        element("p", element("strong", "Green: " if good else "Red: "), verdict(report), class_=verdict_class),
        element("p", prose(f"Exit status {code}: {report.gate.meaning}")) if code is not None else None,
        element("ul", *(element("li", fact) for fact in _facts(report)), class_="facts"),
        element("button", "Dark or light", id="theme", type="button", aria_pressed="false"),
    )


def _facts(report: Report) -> Iterator[str]:
    device = report.device
    yield "simulated device" if device.backend == "sim" else device.name or "CUDA device, name unknown"
    if device.driver:
        yield f"driver {device.driver}"
    if device.torch:
        yield f"torch {device.torch}"
    yield f"{device.evidence} evidence"
    yield captures_told(report.captures)
    yield _ended(report)


def _ended(report: Report) -> str:
    ended = report.exit
    how = "killed by " + ended.signal if ended.signal else f"ended with status {ended.returncode}"
    if ended.timed_out:
        how = "stopped at the time limit"
    elif ended.running:
        how = "still running"
    elif ended.returncode is None and not ended.signal:
        how = "its end was not seen"
    return f"{how}, {ended.exception}" if ended.exception else how


def _sections(report: Report) -> Iterator[Html]:
    if report.gate.violations:
        yield element("section", element("h2", "Conditions not met"), _listed(report.gate.violations), id="gate")
    yield from findings.section(report)
    yield from captures.section(report)
    yield from heat.section(report)
    yield _not_checked(report)
    if report.gate.notices:
        yield element("section", element("h2", "To tidy up"), _listed(report.gate.notices), id="notices")


def _listed(told: Iterable[Violation | Notice]) -> Html:
    rows = [element("li", prose(one.what), f" ({where(one.location)})" if one.location else None) for one in told]
    return element("ul", *rows)


def _not_checked(report: Report) -> Html:
    rows = [
        element(
            "tr",
            element("th", row.what, scope="row"),
            element("td", {"failed": "failed: ", "skipped": "skipped: "}.get(row.kind, ""), prose(row.why)),
            element("td", where(row.location) if row.location else ""),
            class_="incomplete" if row.incomplete else None,
        )
        for row in unseen(report)
    ]
    if not rows:
        return element("section", element("h2", "Not checked"), element("p", "Everything was looked at."), id="unseen")
    head = element("tr", *(element("th", title, scope="col") for title in ("What", "Why", "Where")))
    body = element("table", element("thead", head), element("tbody", *rows))
    return element(
        "section", element("h2", f"Not checked ({len(rows)})"), element("div", body, class_="wide"), id="unseen"
    )


def _resource(name: str) -> Html:
    return Html(files("cudagraph_doctor.reporters.html").joinpath(name).read_text(encoding="utf-8"))


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
