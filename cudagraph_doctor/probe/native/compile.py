"""Builds the C probe with the package: a plain shared library, where there is a C compiler.

Where there is none, the package comes without, and says so when driver evidence is asked for. Named in pyproject.toml,
and run by setuptools. The library uses no C API of Python, so that one build serves every
CPython and the wheel's tag is `py3-none-PLATFORM`.
"""

from __future__ import annotations

import os
import sys
from glob import glob
from typing import TYPE_CHECKING

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

if TYPE_CHECKING:
    from setuptools import Extension

NAME = "cudagraph_doctor.probe.native._probe"
COMPILE = ["-std=c11", "-O2", "-g", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"]
LINK = ["-static-libgcc", "-pthread", "-ldl"]
"""The unwinder is linked in: see backtrace.c."""


class BuildProbe(build_ext):
    """Compiles every C file beside this one into `_probe.so`."""

    def finalize_options(self) -> None:
        """Sources and flags; nothing to do elsewhere than on Linux."""
        super().finalize_options()
        for extension in self.extensions:
            if extension.name == NAME:
                extension.sources = sorted(glob(os.path.join(*NAME.split(".")[:-1], "*.c")))
                extension.extra_compile_args = COMPILE
                extension.extra_link_args = LINK
        if not sys.platform.startswith("linux"):
            self.extensions = [extension for extension in self.extensions if extension.name != NAME]

    def get_ext_filename(self, fullname: str) -> str:
        """`_probe.so`, whatever the interpreter."""
        if fullname.rpartition(".")[2] == NAME.rpartition(".")[2]:
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """What the sources export; there is no PyInit function."""
        return list(ext.export_symbols or [])


class TagProbe(bdist_wheel):
    """A wheel for every Python 3 of one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """The tag of the wheel's name."""
        _python, _abi, platform = super().get_tag()
        return "py3", "none", platform
