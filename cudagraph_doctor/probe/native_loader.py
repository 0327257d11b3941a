"""Opens the C probe by ctypes and gives it what it needs: files, counter, signal, names of folders.

The library is plain C: it knows nothing of Python but the address of one function, so one build serves every CPython.
"""

from __future__ import annotations

import ctypes
import os

from cudagraph_doctor.probe.frames import OURS
from cudagraph_doctor.probe.native_maps import Mapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudagraph_doctor.probe.context import Context

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native", "_probe.so")
ABI = 2
RANGES = 8
STACK_BYTES = 1 << 18
"""Size of the memory file for one Python stack as text (native/stack.c)."""
PATH_BYTES = 1 << 18
CUDA_LIBRARIES = ("libcuda", "libcupti", "libcudart", "_probe")
LOWEST_FD = 900

REASONS = {
    -1: "libcupti or libcuda is not mapped any more",
    -2: "this libcupti or libcuda lacks a function",
    -3: "this CUPTI hands over another structure than the one we know",
    -4: "the native probe was built for another version of this package",
    1: "CUPTI refused the parameters",
    15: "CUPTI is not initialised",
    39: "another CUDA developer tool or profiler holds CUPTI",
}
"""Why `Library.arm` failed: numbers of ours (subscribe.c), and CUptiResult."""


_kept: list[object] = []
"""What the library points into. It is never unloaded, so neither are these."""


class UnloadableError(Exception):
    """The C probe cannot be used here; the text says why."""


class Range(ctypes.Structure):
    """`struct range` of probe.h."""

    _fields_ = (("begin", ctypes.c_uint64), ("end", ctypes.c_uint64))


class Configuration(ctypes.Structure):
    """`struct cgd_config` of probe.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("trace_fd", ctypes.c_int32),
        ("trace_dev", ctypes.c_uint64),
        ("trace_ino", ctypes.c_uint64),
        ("stack_fd", ctypes.c_int32),
        ("stack_signal", ctypes.c_int32),
        ("stack_dev", ctypes.c_uint64),
        ("stack_ino", ctypes.c_uint64),
        ("head", ctypes.c_void_p),
        ("cupti", ctypes.c_char_p),
        ("driver", ctypes.c_char_p),
        ("roots", ctypes.c_char_p),
        ("python_state", ctypes.c_void_p),
        ("own", Range * RANGES),
        ("deep", ctypes.c_uint32),
    )


class Library:
    """The C probe, opened.

    Raises:
        UnloadableError: it was not built, or cannot be opened.
    """

    def __init__(self, path: str = LIBRARY) -> None:
        if not os.path.exists(path):
            raise UnloadableError(
                "the native probe was not built: no C compiler was there when the package was installed"
            )
        try:
            # PyDLL keeps the GIL: right for calls of some 100 ns that wait for nobody. CDLL lets go of it: right for
            # those that call CUPTI, whose locks a thread may hold that waits for the GIL.
            self.quick = ctypes.PyDLL(path)
            self.slow = ctypes.CDLL(path)
        except OSError as error:
            raise UnloadableError(f"the native probe cannot be opened: {error}") from None
        self.quick.cgd_draw.restype = ctypes.c_uint64
        self.quick.cgd_draw.argtypes = ()
        self.quick.cgd_announce.restype = None
        self.quick.cgd_announce.argtypes = (ctypes.c_int, ctypes.c_int64)
        self.quick.cgd_operator_words.restype = ctypes.c_void_p
        self.quick.cgd_operator_words.argtypes = ()
        self.quick.cgd_use_trace.restype = None
        self.quick.cgd_use_trace.argtypes = (ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)
        self.slow.cgd_take_paths.restype = ctypes.c_size_t
        self.slow.cgd_take_paths.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
        self.slow.cgd_arm.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        if self.quick.cgd_abi() != ABI:
            raise UnloadableError("the native probe was built for another version of this package")

    def configure(
        self, context: Context, cupti: Mapped, driver: Mapped, libraries: list[Mapped]
    ) -> tuple[int, int, int]:
        """Hands over what the callbacks need, before `arm`; returns what `trace_of` gave.

        Raises:
            UnloadableError: it refuses.
            OSError: a file cannot be made.
        """
        configuration = Configuration(size=ctypes.sizeof(Configuration), deep=bool(context.config.get("deep")))
        trace = trace_of(context)
        configuration.trace_fd, configuration.trace_dev, configuration.trace_ino = trace
        number, fd = _stack_signal()
        if number:
            found = os.fstat(fd)
            configuration.stack_dev, configuration.stack_ino = found.st_dev, found.st_ino
        configuration.stack_fd, configuration.stack_signal = fd, number
        head = (ctypes.c_uint64 * 8).from_buffer(context.slots.head)
        configuration.head = ctypes.addressof(head)
        configuration.cupti, configuration.driver = os.fsencode(cupti.path), os.fsencode(driver.path)
        configuration.roots = _roots(context)
        state = getattr(ctypes.pythonapi, "PyGILState_GetThisThreadState", None)
        configuration.python_state = ctypes.cast(state, ctypes.c_void_p).value if state is not None else None
        own = [library for library in libraries if library.name.split(".so", 1)[0] in CUDA_LIBRARIES]
        for place, library in zip(configuration.own, own, strict=False):
            place.begin, place.end = library.begin, library.end
        _kept.extend((configuration, head))
        if self.slow.cgd_configure(ctypes.byref(configuration)) != 0:
            raise UnloadableError(REASONS[-4])
        context.writer.sequence.share(context.slots.head, self.quick.cgd_draw)
        return trace

    def arm(self) -> tuple[int, str, str]:
        """Subscribes. (0 or the number of a reason, CUPTI's version, who holds CUPTI if somebody else does)."""
        version, holder = ctypes.c_uint32(), ctypes.create_string_buffer(64)
        code = self.slow.cgd_arm(ctypes.byref(version), holder)
        return int(code), _version_text(version.value), holder.value.decode("utf-8", "replace")

    def release(self) -> int:
        """Gives CUPTI free; 0, or a CUptiResult."""
        return int(self.slow.cgd_release())

    def new_files(self) -> list[tuple[int, str]]:
        """(source id, path) of the files that stand in stacks of the C probe and were not taken before."""
        buffer = ctypes.create_string_buffer(PATH_BYTES)
        used = self.slow.cgd_take_paths(buffer, PATH_BYTES)
        fields = buffer.raw[:used].split(b"\0")[:-1]
        return [(int(number), _unescaped(path)) for number, path in zip(fields[::2], fields[1::2], strict=True)]


def trace_of(context: Context) -> tuple[int, int, int]:
    """(a descriptor of our own for the trace file, its device, its inode).

    Raises:
        OSError: there is no trace file.
    """
    import fcntl

    file = context.writer._file
    if file is None:
        raise OSError("there is no trace file")
    fd = fcntl.fcntl(file.fd, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
    found = os.fstat(fd)
    return fd, found.st_dev, found.st_ino


def _stack_signal() -> tuple[int, int]:
    """(real-time signal on which faulthandler writes a thread's stack, memory file it writes to); (0, -1) without one.

    A signal that nobody handles is taken, so that none of the target's is lost.
    """
    import faulthandler
    import fcntl
    import signal

    number = next((n for n in range(signal.SIGRTMAX - 5, signal.SIGRTMIN, -1) if not _caught(n)), 0)
    if not number or not hasattr(os, "memfd_create"):
        return 0, -1
    low = os.memfd_create("cudagraph-doctor-stack", os.MFD_CLOEXEC)
    os.ftruncate(low, STACK_BYTES)
    fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
    os.close(low)
    faulthandler.register(number, fd, all_threads=False, chain=False)
    return number, fd


def _caught(number: int) -> bool:
    """Whether a signal has a handler, or is ignored, in this process."""
    with open("/proc/self/status", encoding="ascii") as status:
        masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigCgt", "SigIgn"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def _roots(context: Context) -> bytes:
    """Table for native/paths.c: how a path is told, and whose it is, by its longest known prefix."""
    import sys
    import sysconfig

    from cudagraph_doctor.probe.ownership import LIBRARIES

    table = {OURS: ("", ""), "<frozen": ("stdlib:<frozen", "library"), "<string>": ("target:<string>", "user")}
    for kind in ("stdlib", "platstdlib"):
        table[sysconfig.get_path(kind) + os.sep] = ("stdlib:", "library")
    for folder, root in ((context.config.cwd, "cwd:"), (context.config.target, "target:")):
        if folder:
            table[os.path.realpath(folder) + os.sep] = (root, "user")
    sites = {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    for site in sites | {os.path.realpath(entry) for entry in sites}:
        table[site + os.sep] = ("site:", "third_party")
        for package in LIBRARIES:
            table[f"{site}{os.sep}{package}{os.sep}"] = (f"site:{package}/", "library")
    entries = sorted(table.items(), key=lambda entry: -len(entry[0]))
    text = "".join(f"{_escaped(prefix)}\0{named}\0{role}\0" for prefix, (named, role) in entries)
    return text.encode("ascii", "replace") + b"\0"


def _escaped(path: str) -> str:
    r"""A path as faulthandler writes it: ASCII, other characters as \xNN, \uNNNN or \UNNNNNNNN."""
    return path.encode("ascii", "backslashreplace").decode("ascii")


def _unescaped(path: bytes) -> str:
    """The path that faulthandler wrote."""
    import re

    text = path.decode("ascii", "replace")
    return re.sub(
        r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))",
        lambda found: chr(int(found.group(1) or found.group(2) or found.group(3), 16)),
        text,
    )


def _version_text(version: int) -> str:
    """CUPTI's API version: 130000 is that of CUDA 13.0, older ones count from 1."""
    return f"{version // 10000}.{version % 10000 // 100}" if version >= 10000 else str(version)
