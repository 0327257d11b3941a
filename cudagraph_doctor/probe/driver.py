"""Questions to the CUDA driver that the target has mapped; only such as are safe while a stream captures.

`cuStreamIsCapturing` and `cuStreamGetCaptureInfo` leave every state as it is, whatever they return (measured in all
three capture modes, from the capturing and from another thread). Nothing is loaded here: without a driver in the
process there is nothing to ask. The calls go through `ctypes.CDLL`, which lets go of the GIL: a thread that holds the
driver's lock may be waiting for the GIL.
"""

from __future__ import annotations

import ctypes
import os
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.graphwalk.reader import GraphReader, Walk

LIBRARY = "libcuda.so.1"
LOG_BYTES = 32 * 1024
"""More than the driver keeps: 100 entries, 25,600 bytes (CUDA 13 driver API, error log management)."""

_NON_BLOCKING = 1
_RELAXED = 2
_NO_CONTEXT = 201
_NOT_READY = 600
_NO_TIMING = 2
_MEMORY_TYPE = 2
_HOST = 1
_LEGACY = (0, 1)


class Driver:
    """The driver API by ctypes. Until `attach` has found the library, every answer is None or empty."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._name = library
        self._lib: Any = None
        self._is_capturing: Any = None
        self._answers: dict[int, tuple[ctypes.c_int, int]] = {}
        """Thread identifier → where its answers go, and that address: the call lets go of the GIL."""
        self._frontiers: dict[int, _Frontier] = {}
        self._reader: GraphReader | None = None
        self._context: ctypes.c_void_p | None = None
        self._log_at: ctypes.c_uint | None = None
        self._buffer: Any = None

    def attach(self) -> bool:
        """Find the library if the target has mapped it by now."""
        if self._lib is not None:
            return True
        try:
            lib = ctypes.CDLL(self._name, mode=os.RTLD_NOW | getattr(os, "RTLD_NOLOAD", 4))
        except OSError:
            return False
        self._is_capturing = getattr(lib, "cuStreamIsCapturing", None)
        if self._is_capturing is None:
            return False
        self._is_capturing.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._lib = lib
        return True

    def has(self, name: str) -> bool:
        """Whether the driver has an entry point."""
        return self._lib is not None and hasattr(self._lib, name)

    # ── capture status ──────────────────────────────────────────────────────────────────────────
    def status(self, stream: int) -> int | None:
        """Capture status of a stream by raw handle: 0, 1 or 2; None where the driver does not say.

        It does not say (906) of the legacy stream while a blocking stream captures.
        """
        try:
            status, at = self._answers[get_ident()]
        except KeyError:
            status = ctypes.c_int()
            at = ctypes.addressof(status)
            self._answers[get_ident()] = status, at
        if self._is_capturing is None:
            return None
        code = self._is_capturing(stream, at)
        if code and (code != _NO_CONTEXT or self._context is None or self._with_context(stream, status)):
            return None
        return status.value

    def remember_context(self) -> None:
        """The calling thread is about to capture: its context answers for threads that have none."""
        if self._lib is None:
            return
        context = ctypes.c_void_p()
        if self._lib.cuCtxGetCurrent(ctypes.byref(context)) == 0 and context.value:
            self._context = context

    def _with_context(self, stream: int, status: ctypes.c_int) -> int:
        """Ask with a context on this thread's stack, which is as empty as before afterwards."""
        lib = self._lib
        if lib.cuCtxPushCurrent_v2(self._context) != 0:
            return _NO_CONTEXT
        code = int(self._is_capturing(stream, ctypes.byref(status)))
        lib.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        return code

    def capture_info(self, stream: int) -> tuple[int | None, int, int | None]:
        """(status, the driver's id of the capture sequence, nodes captured so far)."""
        if self._lib is None:
            return None, 0, None
        status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
        out = (ctypes.byref(status), ctypes.byref(number), ctypes.byref(graph))
        handle = ctypes.c_void_p(stream)
        if self.has("cuStreamGetCaptureInfo_v3"):  # 12.3 and newer
            code = self._lib.cuStreamGetCaptureInfo_v3(handle, *out, None, None, None)
        elif self.has("cuStreamGetCaptureInfo_v2"):
            code = self._lib.cuStreamGetCaptureInfo_v2(handle, *out, None, None)
        else:
            return self.status(stream), 0, None
        if code != 0:
            return None, 0, None
        nodes = self._node_count(graph) if status.value == 1 and graph.value else None
        return status.value, number.value, nodes

    def frontier(self, stream: int) -> int:
        """Handle of the newest node that a capturing stream made; 0 if there is none, or if several end it."""
        if self._lib is None:
            return 0
        try:
            answer = self._frontiers[get_ident()]
        except KeyError:
            answer = self._frontiers[get_ident()] = _Frontier(self._lib)
        return answer.ask(stream)

    def reads_graphs(self) -> bool:
        """Whether the graph of an open capture can be read: the driver tells its handle since 11.3."""
        return self.has("cuGraphGetNodes") and (
            self.has("cuStreamGetCaptureInfo_v3") or self.has("cuStreamGetCaptureInfo_v2")
        )

    def read_graph(self, stream: int) -> Walk | None:
        """The graph that a capturing stream makes, as it is now; None where the driver does not tell."""
        answer = _Frontier(self._lib)
        answer.ask(stream)
        if not answer.graph.value:
            return None
        if self._reader is None:
            from cudagraph_doctor.probe.graphwalk.reader import GraphReader

            self._reader = GraphReader(self._lib)
        # What a driver might refuse while a stream captures must not break the capture.
        mode = ctypes.c_int(_RELAXED)
        if self._lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)) != 0:
            return None
        try:
            return self._reader.read(answer.graph.value)
        finally:
            self._lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))

    def _node_count(self, graph: ctypes.c_void_p) -> int | None:
        count = ctypes.c_size_t()
        return count.value if self._lib.cuGraphGetNodes(graph, None, ctypes.byref(count)) == 0 else None

    # ── the device ──────────────────────────────────────────────────────────────────────────────
    def device_facts(self, ordinal: int) -> dict[str, str]:
        """Name of a device, version of the driver and the newest CUDA that it serves; what is not told is left out.

        Only outside capture windows, though none of these calls concerns a stream.
        """
        if self._lib is None:
            return {}
        facts: dict[str, str] = {}
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        if self._lib.cuDeviceGet(ctypes.byref(device), ordinal) == 0:  # noqa: SIM102 - the second call needs the first
            if self._lib.cuDeviceGetName(name, len(name) - 1, device) == 0:
                facts["device"] = name.value.decode("utf-8", "replace")
        number = ctypes.c_int()
        if self._lib.cuDriverGetVersion(ctypes.byref(number)) == 0:
            facts["cuda"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
        module = _module_version()
        if module:
            facts["driver"] = module
        return facts

    # ── objects ─────────────────────────────────────────────────────────────────────────────────
    def blocking(self, stream: int) -> bool | None:
        """Whether a stream synchronises with the legacy stream. Only outside capture windows.

        cuStreamGetFlags is refused (900) and breaks a capture that is open (measured, driver 580). One that the
        recorder does not know of is spared by the relaxed mode, as torch's allocator spares it.
        """
        if self._lib is None or stream in _LEGACY:
            return None
        flags, mode = ctypes.c_uint(), ctypes.c_int(_RELAXED)
        if self._lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)) != 0:
            return None
        code = self._lib.cuStreamGetFlags(ctypes.c_void_p(stream), ctypes.byref(flags))
        self._lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        return None if code != 0 else not flags.value & _NON_BLOCKING

    def pinned(self, address: int) -> bool | None:
        """Whether host memory is page-locked.

        The plural call does not fail, and logs nothing, for memory that CUDA does not know (CUDA driver API,
        cuPointerGetAttributes); it is legal in every capture mode (measured).
        """
        if self._lib is None or not address:
            return None
        kind = ctypes.c_uint()
        wanted = (ctypes.c_int * 1)(_MEMORY_TYPE)
        data = (ctypes.c_void_p * 1)(ctypes.addressof(kind))
        code = self._lib.cuPointerGetAttributes(1, wanted, data, ctypes.c_uint64(address))
        return kind.value == _HOST if code == 0 else None

    def mark(self, stream: int, earlier: Any = None) -> Any:
        """An event of ours behind all that a stream was given so far; `earlier`, of the same kind, is used again.

        Only outside capture windows. It orders nothing: nobody waits for it. None where that cannot be.
        """
        if self._lib is None:
            return None
        event = earlier
        if event is None:
            event = ctypes.c_void_p()
            if self._lib.cuEventCreate(ctypes.byref(event), _NO_TIMING) != 0:
                return None
        return event if self._lib.cuEventRecord(event, ctypes.c_void_p(stream)) == 0 else None

    def reached(self, mark: Any) -> bool:
        """Whether the device has done what was before a mark. Only outside capture windows.

        In the relaxed mode, which spares a capture that the recorder does not know of.
        """
        mode = ctypes.c_int(_RELAXED)
        if self._lib is None or self._lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)) != 0:
            return True
        code = self._lib.cuEventQuery(mark)
        self._lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        return int(code) != _NOT_READY

    def sticky(self) -> int | None:
        """The error that every call in this context returns by now, 0 if there is none.

        Asks for the free memory, which is legal in every capture mode and passes a context's sticky error on.
        """
        if self._lib is None:
            return None
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        return int(self._lib.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))

    # ── error log ───────────────────────────────────────────────────────────────────────────────
    def mark_log(self) -> bool:
        """Start reading the error log here; False where the driver has none (before 12.9)."""
        if not (self.has("cuLogsCurrent") and self.has("cuLogsDumpToMemory")):
            return False
        at = ctypes.c_uint()
        if self._lib.cuLogsCurrent(ctypes.byref(at), 0) != 0:
            return False
        self._log_at = at
        if self._buffer is None:
            self._buffer = ctypes.create_string_buffer(LOG_BYTES)
        return True

    def error_log(self) -> list[str]:
        """Lines of the error log since the last call, or since `mark_log`."""
        if self._log_at is None:
            return []
        size = ctypes.c_size_t(LOG_BYTES)
        code = self._lib.cuLogsDumpToMemory(ctypes.byref(self._log_at), self._buffer, ctypes.byref(size), 0)
        if code != 0 or not size.value:
            return []
        text = self._buffer.raw[: size.value].rstrip(b"\0")
        return [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]


class _Frontier:
    """One thread's question what a capturing stream made last: the call lets go of the GIL."""

    __slots__ = ("_args", "_ask", "_edges", "_id", "_nodes", "_number", "_status", "graph")

    def __init__(self, lib: Any) -> None:
        self._status, self._id, self.graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
        self._nodes, self._edges, self._number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        newest = getattr(lib, "cuStreamGetCaptureInfo_v3", None)  # 12.3: refuses to leave out data of edges
        self._ask = newest or getattr(lib, "cuStreamGetCaptureInfo_v2", None)
        told = (self._nodes, self._edges, self._number) if newest is not None else (self._nodes, self._number)
        self._args = tuple(ctypes.byref(value) for value in (self._status, self._id, self.graph, *told))

    def ask(self, stream: int) -> int:
        """Handle of the newest node, 0 if there is none or several; `graph` is the graph's."""
        self.graph.value = None
        self._number.value = 0
        if self._ask is None or self._ask(ctypes.c_void_p(stream), *self._args) != 0 or self._status.value != 1:
            self.graph.value = None
            return 0
        if self._number.value != 1 or not self._nodes.value:
            return 0
        return int(ctypes.c_uint64.from_address(self._nodes.value).value)


def _module_version() -> str:
    """Version of the NVIDIA kernel module, `580.159.04`; "" where /proc does not tell (WSL)."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            words = file.readline().split()
    except OSError:
        return ""
    return next((word for word in words if word.count(".") and word.replace(".", "").isdecimal()), "")
