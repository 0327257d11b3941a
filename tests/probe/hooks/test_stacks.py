from __future__ import annotations

import base64
import sys
import zlib
from pathlib import Path

import pytest

from cudagraph_doctor.probe.ownership import Ownership

HERE = Path(__file__)


def here(context):
    return context.stack()  # marker: innermost


def test_a_stack_is_written_once_with_columns_for_the_users_file(recorder):
    ids = {here(recorder.context) for _ in range(3)}
    assert len(ids) == 1
    (stack,) = recorder.records("stack")
    source = {one.id: one for one in recorder.records("source")}
    frame = stack.frames[0]
    lines = HERE.read_text().splitlines()
    assert lines[frame[1] - 1].strip().endswith("# marker: innermost")
    assert lines[frame[1] - 1][frame[4] : frame[5]] == "context.stack()"
    assert frame[2] == "here"
    own = source[frame[0]]
    assert own.role == "user"
    assert zlib.decompress(base64.b64decode(own.text)) == HERE.read_bytes()
    assert {one.role for one in source.values() if one.path.startswith("stdlib:")} <= {"library"}


def test_columns_count_characters(recorder, tmp_path):
    script = tmp_path / "kanji.py"
    script.write_text('def f(context):\n    s = "漢字"; return context.stack()\n', encoding="utf-8")
    space: dict = {}
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), space)
    space["f"](recorder.context)
    frame = recorder.records("stack")[0].frames[0]
    assert script.read_text(encoding="utf-8").splitlines()[1][frame[4] : frame[5]] == "context.stack()"


def test_the_outer_frames_of_a_deep_stack_are_counted(recorder):
    def down(depth):
        return down(depth - 1) if depth else recorder.context.stack()

    down(300)
    stack = recorder.records("stack")[0]
    assert len(stack.frames) == 128
    assert stack.cut > 170


def test_an_exception_has_the_stack_in_which_it_was_raised(recorder):
    def fails():
        raise ValueError

    try:
        fails()
    except ValueError as error:
        number = recorder.context.stacks.from_traceback(error.__traceback__)
    stack = next(one for one in recorder.records("stack") if one.id == number)
    assert [frame[2].rpartition(".")[2] for frame in stack.frames[:2]] == [
        "fails",
        "test_an_exception_has_the_stack_in_which_it_was_raised",
    ]


def test_ids_go_on_in_a_forked_child(recorder):
    first = here(recorder.context)
    recorder.context.stacks.reset()
    assert here(recorder.context) > first


@pytest.fixture
def site(tmp_path):
    """A folder like site-packages, with an ordinary, an oddly named and an editable distribution."""
    folder = tmp_path / "lib" / "site-packages"
    for top in ("torch", "transformers", "yaml"):
        (folder / top).mkdir(parents=True)
        (folder / top / "x.py").touch()
    for name in ("torch-2.11.0", "transformers-5.0", "PyYAML-6.0", "engine-1.0"):
        (folder / f"{name}.dist-info").mkdir()
    (folder / "PyYAML-6.0.dist-info" / "top_level.txt").write_text("yaml\n")
    checkout = tmp_path / "engine"
    checkout.mkdir()
    (checkout / "model.py").touch()
    (folder / "engine-1.0.dist-info" / "direct_url.json").write_text(
        f'{{"url": "file://{checkout}", "dir_info": {{"editable": true}}}}'
    )
    return folder


def test_who_owns_a_file(site, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    owners = Ownership(target=str(tmp_path / "script"), cwd=str(tmp_path))
    found = {name: owners.of(str(path)) for name, path in {
        "torch": site / "torch" / "x.py",
        "transformers": site / "transformers" / "x.py",
        "yaml": site / "yaml" / "x.py",
        "engine": tmp_path / "engine" / "model.py",
        "script": tmp_path / "script" / "run.py",
        "inductor": tmp_path / "torchinductor_me" / "ab" / "cab.py",
    }.items()}  # fmt: skip
    roles = {name: (owner.role, owner.dist) for name, owner in found.items()}
    assert roles == {
        "torch": ("library", "torch"),
        "transformers": ("third_party", "transformers"),
        "yaml": ("third_party", "PyYAML"),
        "engine": ("third_party", "engine"),
        "script": ("user", ""),
        "inductor": ("generated", ""),
    }
    assert found["script"].path == "target:run.py"
    assert found["transformers"].path == "site:transformers/x.py"
    assert found["engine"].path == "cwd:engine/model.py"


def test_an_editable_distribution_is_the_users_own_if_the_script_lies_in_it(site, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    owners = Ownership(target=str(tmp_path / "engine" / "scripts"))
    assert owners.of(str(tmp_path / "engine" / "model.py")).role == "user"


def test_own_makes_a_distribution_the_users(site):
    assert Ownership(own=("transformers",)).of(str(site / "transformers" / "x.py")).role == "user"
    assert Ownership(own=("pyyaml",)).of(str(site / "yaml" / "x.py")).role == "user"
    assert Ownership(own=(str(site / "yaml"),)).of(str(site / "yaml" / "x.py")).role == "user"


def test_code_without_a_file():
    owners = Ownership()
    assert owners.of("<string>", "__main__").role == "user"
    assert owners.of("<string>", "dataclasses").role == "library"
    assert owners.of("<frozen importlib._bootstrap>", "importlib._bootstrap").role == "library"
    assert owners.of("<eval_with_key>.3", "x").role == "generated"
