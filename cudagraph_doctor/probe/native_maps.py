"""The libraries that this process has mapped, from /proc/self/maps; never read while a driver callback runs."""

from __future__ import annotations

import os

PROC = "/proc"
MAPS = "/proc/self/maps"


class Mapped:
    """A mapped library: its executable pages, from the first to the last."""

    __slots__ = ("begin", "end", "path")

    def __init__(self, path: str, begin: int, end: int) -> None:
        self.path = path
        self.begin = begin
        self.end = end

    @property
    def name(self) -> str:
        """File name, without its folder."""
        return os.path.basename(self.path)


def mapped() -> list[Mapped]:
    """Every library of this process, by its executable pages. Empty where /proc does not tell."""
    found: dict[str, Mapped] = {}
    try:
        with open(MAPS, encoding="utf-8", errors="surrogateescape") as maps:
            lines = maps.readlines()
    except OSError:
        return []
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/"):
            continue
        path = fields[5].rstrip("\n").removesuffix(" (deleted)")
        begin, _, end = fields[0].partition("-")
        known = found.get(path)
        if known is None:
            found[path] = Mapped(path, int(begin, 16), int(end, 16))
        else:
            known.begin, known.end = min(known.begin, int(begin, 16)), max(known.end, int(end, 16))
    return list(found.values())


def one_of(libraries: list[Mapped], stem: str) -> Mapped | None:
    """The library `libSTEM.so*`. Triton brings a CUPTI of its own for its profiler: that of torch goes first."""
    named = [library for library in libraries if library.name.split(".so", 1)[0] == f"lib{stem}"]
    named.sort(key=lambda library: f"{os.sep}triton{os.sep}" in library.path)
    return named[0] if named else None


def foreign_tool(libraries: list[Mapped]) -> str:
    """Name of a CUDA developer tool that is in this process already, "" without one.

    They exclude each other (CUPTI, `cuptiSubscribe`; compute-sanitizer's known limitations): the one that was there
    first keeps its place.
    """
    for library in libraries:
        for mark, tool in _TOOLS:
            if mark in library.name:
                return tool
    if os.environ.get("CUDA_INJECTION64_PATH"):
        return f"the tool of CUDA_INJECTION64_PATH ({os.path.basename(os.environ['CUDA_INJECTION64_PATH'])})"
    if os.environ.get("CUDBG_ENABLE_LAUNCH_BLOCKING") or os.environ.get("CUDBG_RPC_ENABLED"):
        return "cuda-gdb"
    return "cuda-gdb" if "cuda-gdb" in _tracer() else ""


def _tracer() -> str:
    """Command line of the process that traces this one (a debugger, strace), "" without one or where it is not told."""
    try:
        with open(f"{PROC}/self/status", encoding="ascii", errors="replace") as status:
            number = next((line.split()[1] for line in status if line.startswith("TracerPid:")), "0")
        if number == "0":
            return ""
        with open(f"{PROC}/{number}/cmdline", encoding="utf-8", errors="replace") as command:
            return command.read()
    except OSError:
        return ""


_TOOLS = (
    ("libsanitizer-collection", "compute-sanitizer"),
    ("libInterceptorInjectionTarget", "compute-sanitizer"),
    ("libTreeLauncherTargetInjection", "an NVIDIA launcher (compute-sanitizer or Nsight Compute)"),
    ("libToolsInjection", "Nsight Systems"),
    ("libnvperf_target_injection", "Nsight Compute"),
    ("libcuda-injection", "Nsight Compute"),
    ("libcudadebugger", "cuda-gdb"),
)
