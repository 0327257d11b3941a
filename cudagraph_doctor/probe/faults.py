"""Python stacks of a process that dies of a signal or hangs, through `faulthandler`, into a file of ours.

Where the target (or `-X faulthandler`) has faulthandler on already, its text stays where the target wants it. Otherwise
ours writes to `<trace>.fault`, so that the target's standard error is what it would be, and the launcher folds the text
into the seal. A target that enables faulthandler later takes it over.
"""

from __future__ import annotations

import os
import signal

from cudagraph_doctor.probe.descriptor import Descriptor
from cudagraph_doctor.probe.writer import FAULT_SUFFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudagraph_doctor.probe.writer import Writer

HOOK = "faults"


class Faults:
    """The fault file of this process."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._file: Descriptor | None = None
        self.signal = 0
        """Real-time signal on which all stacks are written; 0: none. Sent before a hanging run is ended."""

    def start(self) -> str:
        """Turns it on. Returns why it is not on, or nothing.

        Raises:
            OSError: the file cannot be made.
        """
        import faulthandler

        if faulthandler.is_enabled():
            return "the target's own faulthandler is on"
        self._file = Descriptor(self._path())
        faulthandler.enable(self._file.fd)
        number = signal.SIGRTMAX - 3
        if signal.getsignal(number) is signal.SIG_DFL:
            faulthandler.register(number, self._file.fd, chain=False)
            self.signal = int(number)
        return ""

    def fork(self) -> None:
        """In a forked child: another file under the same number, which faulthandler keeps."""
        if self._file is None:
            return
        number = self._file.fd
        self._file.close()
        self._file = Descriptor(self._path())
        self._file.renumber(number)

    def settle(self) -> None:
        """At the end of a process that no launcher waits for: takes an empty file away."""
        path = self._path()
        try:
            if os.path.getsize(path) == 0:
                os.unlink(path)
        except OSError:
            pass

    def _path(self) -> str:
        return os.path.join(self._writer.folder, self._writer.name + FAULT_SUFFIX)
