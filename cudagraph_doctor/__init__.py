"""Finds out what breaks a CUDA graph capture.

This file imports nothing: the probe passes through it in the target process, where every millisecond and every
imported module belongs to somebody else. What it offers beyond its version is reached on first use.
"""

__version__ = "0.1.0"

_TESTING = ("assert_capturable", "diagnose", "verify")


def __getattr__(name: str) -> object:
    """`cudagraph_doctor.diagnose` and its like, without importing them for those who only record."""
    if name in _TESTING or name == "testing":
        from importlib import import_module

        testing = import_module("cudagraph_doctor.testing")
        return testing if name == "testing" else getattr(testing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_TESTING])
