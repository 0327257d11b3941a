"""Why there is no simulated device here."""

from __future__ import annotations


class SimUnavailable(Exception):  # noqa: N818 - a state of the machine, not a mistake
    """The simulated device does not work with this build of torch, or on this machine; one line says what does."""


WORKS_WITH = "torch 2.11 to 2.14 (CPU or CUDA builds), Python 3.11 to 3.13, Linux x86-64"
