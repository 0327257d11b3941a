import sys
import tomllib
from pathlib import Path

import pytest

from cudagraph_doctor.api import Checker, Rule, Severity
from cudagraph_doctor.engine import registry
from cudagraph_doctor.engine.registry import BUILTIN, GROUP, BrokenPluginError, find, load, load_all
from cudagraph_doctor.errors import UsageError

ROOT = Path(__file__).parents[2]


def rule(number):
    return Rule(id=number, slug=number.lower(), level=Severity.ERROR, what="w", text="t")


class One(Checker):
    name = "one"
    rules = (rule("AAA1"), rule("AAA2"))

    def check(self, session):
        return ()


class Two(One):
    name = "two"
    rules = (rule("AAA2"),)


class Twin(One):
    rules = (rule("BBB1"),)


class Nameless(One):
    name = ""


class Unfinished(Checker):
    name = "unfinished"
    rules = (rule("CCC1"),)


class RaisesAtBirth(One):
    def __init__(self):
        raise RuntimeError("no GPU here\nsecond line")


NOT_A_CHECKER = object()


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Installs packages whose checkers are the classes of this module."""
    monkeypatch.setitem(sys.modules, "plugin_under_test", sys.modules[__name__])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "BUILTIN", ())

    def install(**packages):
        for package, names in packages.items():
            folder = tmp_path / f"{package}-1.2.dist-info"
            folder.mkdir()
            name = package.replace("_", "-")
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
            lines = [f"{name.lower()} = plugin_under_test:{name}\n" for name in names]
            (folder / "entry_points.txt").write_text(f"[{GROUP}]\n" + "".join(lines))

    return install


def test_ours_are_found_from_a_source_checkout_and_are_what_pyproject_declares():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
    assert {entry_point.name: entry_point.value for entry_point in BUILTIN} == declared


def test_every_checker_of_ours_loads_and_is_named_as_its_entry_point():
    loaded = load_all()
    assert [one.name for one in loaded if one.plugin.package == registry.PACKAGE] == [e.name for e in BUILTIN]
    assert all(one.rules for one in loaded)


def test_finding_imports_nothing_and_is_sorted(install):
    install(zebra=["One"], ape=["Twin", "DoesNotExist"])
    found = find()
    assert [(p.package, p.version, p.entry_point.name) for p in found] == [
        ("ape", "1.2", "doesnotexist"),
        ("ape", "1.2", "twin"),
        ("zebra", "1.2", "one"),
    ]


@pytest.mark.parametrize(
    ("checker", "why"),
    [
        ("DoesNotExist", "AttributeError"),
        ("NOT_A_CHECKER", "not a subclass of cudagraph_doctor.api.Checker"),
        ("Nameless", "it has no name"),
        ("Unfinished", "abstract"),
        ("RaisesAtBirth", "no GPU here"),
    ],
)
def test_a_broken_plugin_is_named_with_package_and_version(install, checker, why):
    install(my_checkers=[checker])
    with pytest.raises(BrokenPluginError, match=r"my-checkers 1\.2") as caught:
        load_all()
    assert why in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2
    assert "my-checkers" in caught.value.hint


def test_a_rule_that_two_packages_define_names_both(install):
    install(ape=["One"], zebra=["Two"])
    with pytest.raises(UsageError, match="AAA2") as caught:
        load_all()
    assert "ape 1.2" in caught.value.message
    assert "zebra 1.2" in caught.value.message


def test_a_name_that_two_packages_use_names_both(install):
    install(ape=["One"], zebra=["Twin"])
    with pytest.raises(UsageError, match="named one") as caught:
        load_all()
    assert "ape 1.2" in caught.value.message
    assert "zebra 1.2" in caught.value.message


def test_good_plugins_run_side_by_side(install):
    install(ape=["One"])
    assert [one.name for one in load(find())] == ["one"]
