"""Where the reports of one diagnosis go: files first, all or none, then standard output."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cudagraph_doctor.cli.standard_output import write_standard_output
from cudagraph_doctor.reporters.formats import Format

if TYPE_CHECKING:
    from cudagraph_doctor.cli.settings import Settings
    from cudagraph_doctor.report import Report

ENV_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The file that GitHub shows as the job's summary (docs.github.com, "Workflow commands", job summaries)."""


def write_reports(report: Report, settings: Settings) -> None:
    """Write everything that was asked for; with the github format also the job's summary.

    Raises:
        OutputError: one cannot be written.
    """
    files = [*settings.files]
    if settings.output is not None:
        files.append((settings.form, settings.output))
    if files:
        from cudagraph_doctor.reporters.files import write_files

        without = replace(report, timelines=())
        whole = [pair for pair in files if pair[0].shows_timelines or settings.asked_for_timelines]
        short = [pair for pair in files if pair not in whole]
        write_files([*((report, *pair) for pair in whole), *((without, *pair) for pair in short)])
    if settings.output is None:
        shown = settings.form.shows_timelines or settings.asked_for_timelines
        write_standard_output(report if shown else replace(report, timelines=()), settings.form)
    forms = {settings.form, *(form for form, _path in settings.files)}
    summary = os.environ.get(ENV_SUMMARY)
    if Format.GITHUB in forms and summary:
        import io

        from cudagraph_doctor.reporters.files import append_file
        from cudagraph_doctor.reporters.github import step_summary

        text = io.StringIO()
        step_summary(report, text)
        append_file(summary, text.getvalue())
