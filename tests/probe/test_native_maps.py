"""Which libraries are mapped, and which of them speak of another CUDA tool."""

import pytest

from cudagraph_doctor.probe import native_maps

MAPS = """\
55d0d6ebf000-55d0d6ec1000 r-xp 00001000 fe:00 1 /usr/bin/python3.12
7f0000000000-7f0000001000 r--p 00000000 fe:00 2 /site/nvidia/cu13/lib/libcupti.so.13
7f0000001000-7f0000005000 r-xp 00001000 fe:00 2 /site/nvidia/cu13/lib/libcupti.so.13
7f0000005000-7f0000006000 r--p 00005000 fe:00 2 /site/nvidia/cu13/lib/libcupti.so.13
7f0000100000-7f0000104000 r-xp 00001000 fe:00 3 /site/triton/backends/nvidia/lib/cupti/libcupti.so.12
7f0000200000-7f0000204000 r-xp 00001000 fe:00 4 /lib/x86_64-linux-gnu/libcuda.so.580.159.04 (deleted)
7f0000300000-7f0000304000 r-xp 00001000 fe:00 5 /opt/with space/lib x.so
7f0000400000-7f0000404000 rwxp 00000000 00:00 0
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]
"""


@pytest.fixture
def maps(tmp_path, monkeypatch):
    monkeypatch.setattr(native_maps, "MAPS", str(tmp_path / "maps"))
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)

    def write(text=MAPS):
        (tmp_path / "maps").write_text(text)
        return native_maps.mapped()

    return write


def test_libraries_are_known_by_their_executable_pages(maps):
    found = {library.name: (library.begin, library.end) for library in maps()}
    assert found["libcupti.so.13"] == (0x7F0000001000, 0x7F0000005000)
    assert "lib x.so" in found
    assert "[vdso]" not in found


def test_torchs_cupti_goes_before_that_of_triton(maps):
    assert native_maps.one_of(maps(), "cupti").name == "libcupti.so.13"
    assert native_maps.one_of(maps(), "cuda").name == "libcuda.so.580.159.04"
    assert native_maps.one_of(maps(), "cublas") is None


def test_no_maps_are_no_libraries(monkeypatch):
    monkeypatch.setattr(native_maps, "MAPS", "/nowhere/maps")
    assert native_maps.mapped() == []


@pytest.mark.parametrize(
    ("library", "tool"),
    [
        ("/opt/sanitizer/libsanitizer-collection.so", "compute-sanitizer"),
        ("/opt/nsys/libToolsInjection64.so", "Nsight Systems"),
    ],
)
def test_another_tool_is_named(maps, library, tool):
    libraries = maps(MAPS + f"7f0000500000-7f0000504000 r-xp 00001000 fe:00 6 {library}\n")
    assert native_maps.foreign_tool(libraries) == tool
    assert native_maps.foreign_tool(maps()) == ""


def test_an_injected_tool_is_named_by_its_library(maps, monkeypatch):
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool/libinjected.so")
    assert "libinjected.so" in native_maps.foreign_tool(maps())


@pytest.mark.parametrize(
    ("command", "tool"), [("/opt/cuda/bin/cuda-gdb\0python\0", "cuda-gdb"), ("/usr/bin/strace\0", "")]
)
def test_a_debugger_is_known_by_its_command_line(maps, monkeypatch, tmp_path, command, tool):
    for folder in ("self", "77"):
        (tmp_path / folder).mkdir()
    (tmp_path / "self" / "status").write_text("Name:\tpython\nTracerPid:\t77\n")
    (tmp_path / "77" / "cmdline").write_text(command)
    monkeypatch.setattr(native_maps, "PROC", str(tmp_path))
    assert native_maps.foreign_tool(maps()) == tool
