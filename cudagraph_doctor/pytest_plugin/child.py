"""In the child: runs with the parent's options, and writes what came of the test, a line a phase."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

REPORTS, OPTIONS, INTERRUPTED = "reports.jsonl", "options.json", "interrupted"


class Child:
    """The part of the plugin that runs in the child."""

    def __init__(self, config: pytest.Config, folder: str) -> None:
        self._config = config
        self._reports = os.path.join(folder, REPORTS)
        self._interrupted = os.path.join(folder, INTERRUPTED)
        with open(os.path.join(folder, OPTIONS), encoding="utf-8") as stream:
            for name, value in json.load(stream).items():
                if hasattr(config.option, name):
                    setattr(config.option, name, value)

    def pytest_keyboard_interrupt(self) -> None:
        """Ctrl-C reached this process; the parent stops too."""
        with open(self._interrupted, "w", encoding="utf-8"):
            pass

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Written at once: the next phase may end the process."""
        data: dict[str, Any] | None = self._config.hook.pytest_report_to_serializable(
            config=self._config, report=report
        )
        with open(self._reports, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(data, default=str) + "\n")
