"""From traces to a report: registry of checkers, selection, run, exit code."""
