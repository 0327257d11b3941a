import pytest

from cudagraph_doctor.session.frames import show_path
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.events import Header

SCRIPT = "import torch\n\n\ndef step():\n    return x.item()\n"
TORCH = ("site:torch/_tensor.py", 300, "Tensor.item")


@pytest.fixture
def trace():
    return TraceBuilder(source=SCRIPT)


def test_the_innermost_user_frame_is_named_with_its_code(trace):
    stack = trace.stack(5, function="step", below=[TORCH], above=[("cwd:main.py", 9, "<module>")], column=11)
    place = trace.session().location(stack)
    assert (place.file, place.line, place.function, place.column) == ("script.py", 5, "step", 11)
    assert place.code == "return x.item()"


def test_what_it_called_comes_outermost_first_and_who_called_it_innermost_first(trace):
    stack = trace.stack(
        5,
        below=[("site:torch/a.py", 1, "outer"), ("site:torch/b.py", 2, "inner")],
        above=[("site:torch/run.py", 3, "runner"), ("cwd:a.py", 4, "mid"), ("cwd:b.py", 5, "top")],
    )
    session = trace.session()
    assert [p.function for p in session.chain(stack)] == ["outer", "inner"]
    assert [p.function for p in session.callers(stack)] == ["mid", "top"]


def test_without_a_user_frame_the_innermost_third_party_frame_is_named(trace):
    vllm = [("site:vllm/engine.py", 40, "run"), ("site:vllm/worker.py", 80, "execute"), TORCH]
    session_stack = trace.stack(None, below=vllm)
    session = trace.session()
    assert session.location(session_stack).file == "site:vllm/worker.py"
    assert [p.function for p in session.chain(session_stack)] == ["Tensor.item"]


def test_with_library_frames_alone_no_line_is_named(trace):
    stack = trace.stack(None, below=[TORCH, ("stdlib:threading.py", 1, "run")])
    session = trace.session()
    assert session.location(stack) is None
    assert len(session.chain(stack)) == 2
    assert session.callers(stack) == ()


@pytest.mark.parametrize("stack", [0, 12345])
def test_an_unknown_stack_has_no_place(trace, stack):
    session = trace.session()
    assert session.location(stack) is None
    assert session.chain(stack) == ()


@pytest.mark.parametrize(
    "own", ["vLLM", "v_llm", "vllm", "vllm.worker", "vllm/worker", "vllm/worker/", "/env/lib/site-packages/vllm"]
)
def test_own_makes_a_distribution_module_or_folder_the_users(trace, own):
    trace.source(
        "site:vllm/worker/run.py",
        role="third_party",
        dist="vllm" if own != "v_llm" else "v.llm",
        module="vllm.worker.run",
    )
    stack = trace.stack(5, below=[("site:vllm/worker/run.py", 80, "execute"), TORCH])
    assert trace.session().location(stack).line == 5
    assert trace.session(own=(own,)).location(stack).line == 80


@pytest.mark.parametrize("own", ["vll", "worker", "", "/"])
def test_own_takes_no_neighbours(trace, own):
    trace.source("site:vllm/worker/run.py", role="third_party", dist="vllm", module="vllm.worker.run")
    stack = trace.stack(5, below=[("site:vllm/worker/run.py", 80, "execute")])
    assert trace.session(own=(own,)).location(stack).line == 5


def header(*argv):
    return Header(q=1, t=1, format="f", version=(1, 0), pid=1, wall=1, argv=argv)


@pytest.mark.parametrize(
    ("path", "argv", "shown"),
    [
        ("cwd:pkg/x.py", (), "pkg/x.py"),
        ("target:x.py", ("scripts/x.py",), "scripts/x.py"),
        ("target:lib/y.py", ("./scripts/x.py",), "./scripts/lib/y.py"),
        ("target:x.py", ("/opt/app/x.py",), "x.py"),
        ("target:x.py", ("x.py",), "x.py"),
        ("target:x.py", ("-m", "app"), "x.py"),
        ("site:torch/x.py", (), "site:torch/x.py"),
        ("abs:/opt/y.py", (), "/opt/y.py"),
        ("<string>", (), "<string>"),
    ],
)
def test_paths_are_shown_as_the_user_writes_them(path, argv, shown):
    assert show_path(header(*argv), path) == shown


def test_a_hostile_source_text_is_bounded_and_a_damaged_one_is_none(trace):
    import base64
    import zlib

    bomb = base64.b64encode(zlib.compress(b"x" * 50_000_000)).decode()
    for number, text in ((90, bomb), (91, "not base64!"), (92, base64.b64encode(b"not zlib").decode()), (93, None)):
        trace.add(events.Source, id=number, path="cwd:h.py", role="user", text=text)
    session = trace.session()
    assert len(session.text(90)) <= 256 * 1024
    assert [session.text(number) for number in (91, 92, 93, 94)] == [None] * 4
    assert session.line(90, 10**30) is None
    assert session.line(90, -1) is None
