import runpy
from pathlib import Path

import pytest

from cudagraph_doctor.testing import diagnose_trace

NOSY = runpy.run_path(str(Path(__file__).with_name("nosy.py")))["Nosy"]


@pytest.fixture(scope="session")
def diagnosed():
    """Diagnoses a path with a checker that asks the session everything, and with no other."""
    return lambda path, **options: diagnose_trace(path, checkers=[NOSY], **options)
