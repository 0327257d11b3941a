"""Puts `cudagraph_doctor.pth` at the top of site-packages, where Python reads it: named in pyproject.toml.

An editable installation has no such file: setuptools then copies nothing. `import cudagraph_doctor.auto` works there.
"""

from __future__ import annotations

import os

from setuptools.command.build_py import build_py

NAME = "cudagraph_doctor.pth"
SOURCE = os.path.join("cudagraph_doctor", "probe", NAME)


class PlaceStartFile(build_py):
    """Builds the package, and the file beside it."""

    def run(self) -> None:
        """Copies the file into the root of what is built."""
        super().run()
        if not self.editable_mode:
            self.mkpath(self.build_lib)
            self.copy_file(SOURCE, os.path.join(self.build_lib, NAME))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """With the file, so that an installation lists it and its removal takes it along."""
        ours = [] if self.editable_mode else [os.path.join(self.build_lib, NAME)]
        return [*super().get_outputs(include_bytecode), *ours]
