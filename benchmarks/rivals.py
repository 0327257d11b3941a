"""Who names the line that broke a capture: torch's own traceback, compute-sanitizer, and this tool, in one run.

Usage: `python benchmarks/rivals.py [CASES] [--rules CGD1,CGD3] [--skip 2gpu] [-j N] [--keep DIR] [--output FILE]`, on a
machine with a GPU. A case is a script whose header says what is true of it, like those of `fixtures/scripts`; all three
get a copy with the header blanked.

For torch it is the last line of the case in its last traceback, for compute-sanitizer (memcheck, its defaults) the line
that it gives with the first refused call, for this tool the first finding. `--keep` keeps what each one printed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "fixtures"))

from collect import expectation, split_header  # noqa: E402

FRAME = re.compile(r'File "([^"]+)", line (\d+)')
HIT = re.compile(r"^=+ (?:Program hit|Error:|.*\bcuda?Error|.*CUDA_ERROR_)")
CONSEQUENCE = re.compile(r"StreamCaptureInvalidated|STREAM_CAPTURE_INVALIDATED|\b901\b")
SECONDS = 150

Place = tuple[str, int]


@dataclass
class Case:
    """A script, and what its header says."""

    name: str
    script: Path
    header: dict[str, str]
    whole_folder: bool
    named: dict[str, Place | None] = field(default_factory=dict)
    """What each one names first."""
    rule: str = ""
    """Rule of this tool's first finding."""

    @property
    def truth(self) -> dict[str, Any]:
        """Accepted rules and places."""
        return expectation({**self.header, "script": self.script.name})

    @property
    def accepted(self) -> set[Place]:
        """Accepted places."""
        return {(file, line) for file, line in self.truth["places"]}

    def files(self) -> set[str]:
        """Names of the case's own files."""
        return {path.name for path in self.script.parent.glob("*.py")} if self.whole_folder else {self.script.name}


def find_cases(root: Path) -> list[Case]:
    """Every script with a `kind` header, in the folder or one folder down (that is then the case's own)."""
    found = []
    for script in sorted([*root.glob("*.py"), *root.glob("*/*.py")]):
        header, _ = split_header(script.read_text(encoding="utf-8"))
        if "kind" in header:
            inner = script.parent != root
            found.append(Case(script.parent.name if inner else script.stem, script, header, inner))
    return found


def copy_of(case: Case, scratch: Path) -> Path:
    """The case without its header, in a folder of its own."""
    folder = scratch / "case"
    if case.whole_folder:
        shutil.copytree(case.script.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        folder.mkdir()
    copy = folder / case.script.name
    copy.write_text(split_header(case.script.read_text(encoding="utf-8"))[1], encoding="utf-8")
    return copy


def printed(command: list[str], cwd: Path) -> str:
    """What a command printed, both streams, or nothing of it where it took too long."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr


def of_torch(text: str, files: set[str]) -> Place | None:
    """The innermost line of the case in the last traceback of a text."""
    _, found, last = text.rpartition("Traceback (most recent call last)")
    mine = [(Path(file).name, int(line)) for file, line in FRAME.findall(last if found else "")]
    return next((place for place in reversed(mine) if place[0] in files), None)


def of_sanitizer(text: str, files: set[str]) -> Place | None:
    """The first line of the case that compute-sanitizer gives with a refused call which is no consequence."""
    line_of = re.compile(r"(" + "|".join(map(re.escape, sorted(files))) + r')"?(?:, line |:)(\d+)')
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("="):
            continue
        if HIT.match(line):
            blocks.append([])
        if blocks:
            blocks[-1].append(line)
    for block in blocks:
        place = line_of.search("\n".join(block[1:]))
        if place is not None and not CONSEQUENCE.search(block[0]):
            return place[1], int(place[2])
    return None


def of_doctor(report: Path) -> tuple[Place | None, str]:
    """Place and rule of the first finding."""
    try:
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    except (OSError, ValueError, KeyError):
        return None, ""
    loud = [f for f in findings if f["level"] != "note"] or findings
    if not loud:
        return None, ""
    where = loud[0].get("location") or {}
    return ((Path(where["file"]).name, where["line"]) if where.get("file") else None), loud[0]["rule"]


def look_at(case: Case, evidence: str, keep: Path | None) -> Case:
    """Runs a case three times."""
    doctor = [sys.executable, "-m", "cudagraph_doctor", "run", "--evidence", evidence, "--format", "json", "--output"]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        copy, report = copy_of(case, scratch), scratch / "report.json"
        plain = printed([sys.executable, str(copy)], copy.parent)
        tool = shutil.which("compute-sanitizer")
        checked = printed([tool, sys.executable, str(copy)], copy.parent) if tool else ""
        said = printed([*doctor, str(report), "--trace", str(scratch / "trace"), str(copy)], copy.parent)
        case.named["torch"] = of_torch(plain, case.files())
        case.named["compute-sanitizer"] = of_sanitizer(checked, case.files())
        case.named["cudagraph-doctor"], case.rule = of_doctor(report)
    if keep is not None:
        for who, text in (("torch", plain), ("sanitizer", checked), ("doctor", said)):
            (keep / f"{case.name}.{who}.txt").write_text(text[-200_000:], encoding="utf-8")
    return case


def table(cases: list[Case]) -> str:
    """The result as Markdown: a case a row, then the sums."""
    names = list(cases[0].named)
    lines = ["| case | accepted | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    sums = dict.fromkeys(names, 0)
    for case in cases:
        row = []
        for name in names:
            place = case.named[name]
            right = place in case.accepted or (not case.accepted and place is not None)
            if name == "cudagraph-doctor":
                right = (right or not case.accepted) and case.rule in case.truth["rules"]
            sums[name] += right
            text = f"{place[0]}:{place[1]}" if place is not None else "—"
            row.append(f"{text}{f' {case.rule}' if name == 'cudagraph-doctor' else ''}{' ✓' if right else ''}")
        wanted = ", ".join(f"{line}" for _file, line in sorted(case.accepted)) or "(no line)"
        lines.append(f"| {case.name} | {'/'.join(case.truth['rules'])} {wanted} | " + " | ".join(row) + " |")
    total = " | ".join(f"**{sums[name]}/{len(cases)}**" for name in names)
    return "\n".join([*lines, f"| **right** | | {total} |"])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, nargs="?", default=ROOT / "fixtures" / "scripts" / "capture_status")
    parser.add_argument("--rules", default="CGD1,CGD3", help="prefixes of rules, comma between")
    parser.add_argument("--skip", default="2gpu", help="requirements of cases to leave out, comma between")
    parser.add_argument("--evidence", default="driver", choices=["auto", "driver", "python"])
    parser.add_argument("-j", "--jobs", type=int, default=4)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    prefixes, skipped = tuple(options.rules.split(",")), set(options.skip.split(","))
    cases = [
        case
        for case in find_cases(options.cases.resolve())
        if not case.header["kind"].startswith("healthy")
        and any(rule.startswith(prefixes) for rule in case.truth["rules"])
        and not skipped & {part.strip() for part in case.header.get("requires", "").split(",")}
    ]
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda case: look_at(case, options.evidence, options.keep), cases))
    text = table(done)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
