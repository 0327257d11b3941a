"""What the environment of a process with a simulated device must say, before torch is imported."""

from __future__ import annotations

from collections.abc import MutableMapping


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Hide every real GPU: nothing in the process may reach one with the addresses of host memory."""
    environ["CUDA_VISIBLE_DEVICES"] = ""
