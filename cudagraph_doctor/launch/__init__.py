"""Starts the target as a child process, waits for it, and writes down how it ended.

This layer is POSIX: `cudagraph-doctor check` and its like never import it.
"""

from cudagraph_doctor.launch.options import LaunchOptions, LaunchResult
from cudagraph_doctor.launch.run import run

__all__ = ["LaunchOptions", "LaunchResult", "run"]
