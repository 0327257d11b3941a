"""Compiles the native probe where there is a C compiler: a plain shared library that ctypes opens.

Everything else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import sys
from glob import glob

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NAME = "cudagraph_doctor.probe.native._probe"


class BuildProbe(build_ext):
    """Names the library without Python's ABI tag: it knows nothing of Python, so one build serves every CPython."""

    def get_ext_filename(self, fullname: str) -> str:
        """`cudagraph_doctor/probe/native/_probe.so`."""
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """No `PyInit` function: it is not a Python module."""
        return ext.export_symbols


class AnyPython(bdist_wheel):
    """Tags the wheel accordingly: `py3-none-linux_x86_64`."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, ABI and platform."""
        return ("py3", "none", super().get_tag()[2])


probe = Extension(
    NAME,
    sources=sorted(glob("cudagraph_doctor/probe/native/*.c")),
    depends=sorted(glob("cudagraph_doctor/probe/native/*.h")),
    extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-fno-omit-frame-pointer"],
    libraries=["dl", "pthread"],
    optional=True,  # a failed compilation is a warning: the probe then says that driver evidence is not available
)

COMMANDS = {"build_ext": BuildProbe, "bdist_wheel": AnyPython}

setup(ext_modules=[probe] if sys.platform == "linux" and probe.sources else [], cmdclass=COMMANDS)
