from __future__ import annotations

import pytest

from cudagraph_doctor.errors import UsageError
from cudagraph_doctor.gate.config import Config
from cudagraph_doctor.gate.config_file import find_configuration, read_configuration

WHOLE = """\
[tool.cudagraph-doctor]
select = ["CGD1"]
ignore = ["CGD116"]
own = ["acme"]
fail-on = "warning"
strict = true
baseline = "base.json"
fail-on-change = ["nodes>5%", "captures<2"]
expected-captures = { "*.py::decode" = 2 }
[tool.cudagraph-doctor.per-file-ignores]
"tests/*" = ["CGD101"]
[tool.cudagraph-doctor.severity]
CGD113 = "warning"
[tool.cudagraph-doctor.budgets]
nodes = 500
pool = "1 GiB"
"""


def test_a_whole_one(tmp_path):
    (tmp_path / "pyproject.toml").write_text(WHOLE)
    (tmp_path / "sub").mkdir()
    found = find_configuration(str(tmp_path / "sub"))
    assert (found.root, found.path) == (str(tmp_path), str(tmp_path / "pyproject.toml"))
    config = found.config
    assert (config.select, config.fail_on, config.strict) == (("CGD1",), "warning", True)
    assert config.per_file_ignores == {"tests/*": ("CGD101",)}
    assert config.budgets.pool == "1 GiB"
    assert config.expected_captures == {"*.py::decode": 2}


def test_our_own_file_comes_before_pyproject_and_near_before_far(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.cudagraph-doctor]\nfail-on = "note"\n')
    (tmp_path / "cudagraph-doctor.toml").write_text('fail-on = "warning"\n')
    assert find_configuration(str(tmp_path)).config.fail_on == "warning"
    near = tmp_path / "near"
    near.mkdir()
    (near / "pyproject.toml").write_text('[tool.cudagraph-doctor]\nfail-on = "note"\n')
    assert find_configuration(str(near)).config.fail_on == "note"


def test_a_pyproject_without_the_table_is_none_of_ours(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert find_configuration(str(tmp_path)).config == Config()
    (tmp_path / "pyproject.toml").write_text("this is no toml = = =\n")
    assert find_configuration(str(tmp_path)).config == Config()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('selct = ["CGD1"]', "unknown key selct. did you mean select?"),
        ("[budgets]\nnode = 3", "unknown key budgets.node. did you mean nodes?"),
        ('select = "CGD1"', "select: expected a list"),
        ("strict = 1", "strict: expected true or false"),
        ('fail-on = "eror"', "fail-on: "),
        ("expected-captures = -1", "expected-captures: "),
        ("[budgets]\nnodes = -1", "budgets.nodes: "),
        ('[budgets]\npool = "many"', "no size: 'many'"),
        ('fail-on-change = ["node>5%"]', "no such quantity: node. did you mean nodes?"),
        ('[severity]\nCGD101 = "fatal"', "severity"),
        ("fail_on = 'error'", "unknown key fail_on. did you mean fail-on?"),
        ("x = [", "is no TOML"),
        ("x = 1" + "0" * 5000, "is no TOML"),
        ("x = " + "[" * 5000, "nested too deeply"),
        ("select = [\x00]", "is no TOML"),
    ],
)
def test_what_is_not_understood_is_named(tmp_path, text, said):
    path = tmp_path / "cudagraph-doctor.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_configuration(str(path))
    assert caught.value.message.startswith(str(path))
    assert said.lower() in f"{caught.value.message}. {caught.value.hint}".lower()


@pytest.mark.parametrize("name", ["cudagraph_doctor", "cudagraphdoctor", "CudaGraph-Doctor"])
def test_a_misspelt_table_is_named(tmp_path, name):
    path = tmp_path / "pyproject.toml"
    path.write_text(f"# cudagraph-doctor\n[tool.{name}]\nstrict = true\n")
    with pytest.raises(UsageError, match="unknown table"):
        find_configuration(str(tmp_path))


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "cudagraph-doctor.toml"
    path.write_bytes(b"x = '\xff'")
    with pytest.raises(UsageError, match="no UTF-8"):
        read_configuration(str(path))
    with pytest.raises(UsageError, match="No such file"):
        read_configuration(str(tmp_path / "none.toml"))


# ── on the command line ──────────────────────────────────────────────────────────────────────


def configure(project, text: str) -> None:
    (project / "cudagraph-doctor.toml").write_text(text)


def test_an_unknown_code_is_an_error_with_the_nearest(project, run):
    for key in ('ignore = ["CGD1O1"]', '[severity]\nCGD1O1 = "note"', '[per-file-ignores]\n"*" = ["CGD1O1"]'):
        configure(project, key)
        code, said = run("check", "clean.jsonl")
        assert code == 2
        assert "CGD101" in said


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 1),
        ('ignore = ["CGD101"]', 7),
        ('select = ["CGD113"]', 7),
        ('fail-on = "never"', 0),
        ('[severity]\nCGD101 = "warning"', 0),
        ('[severity]\nCGD101 = "warning"\n', 0),
        ('fail-on = "warning"\n[severity]\nCGD101 = "warning"', 1),
        ('[per-file-ignores]\n"*.py" = ["CGD101"]', 0),
        ('[per-file-ignores]\n"other/*.py" = ["CGD101"]', 1),
        ('require-checked = ["CGD101"]', 1),
    ],
)
def test_keys_do_what_their_options_do(project, run, text, code):
    configure(project, text)
    assert run("check", "broken.jsonl")[0] in ({code} if code != 7 else {0, 7})


def test_an_option_wins_over_its_key(project, run):
    configure(project, 'fail-on = "never"')
    assert run("check", "broken.jsonl")[0] == 0
    assert run("check", "broken.jsonl", "--fail-on", "error")[0] == 1
    assert run("check", "broken.jsonl", "--no-config")[0] == 1
    assert run("check", "broken.jsonl", "--config", "cudagraph-doctor.toml")[0] == 0
    assert run("check", "broken.jsonl", "--config", "cudagraph-doctor.toml", "--no-config")[0] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expected-captures = 4", "3 captures completed, 4 expected"),
        ('expected-captures = { "script.py" = 4 }', "3 captures of script.py completed, 4 expected"),
        ('expected-captures = { "*::nobody" = 1 }', "0 captures of *::nobody completed, 1 expected"),
        ("budgets = { nodes = 1 }", "2 nodes, budget 1"),
    ],
)
def test_expected_captures_and_budgets(project, run, text, said):
    configure(project, text)
    code, shown = run("check", "three.jsonl")
    assert code == 1
    assert said in " ".join(shown.split())


def test_what_is_expected_and_there_is_green(project, run):
    configure(project, 'expected-captures = { "script.py" = 3 }\nbudgets = { nodes = 2, escapes = 0 }')
    assert run("check", "three.jsonl")[0] == 0
