"""The rules of the checkers are those of the catalogue (contract/rules.toml): same id, slug, level and sentence."""

import pathlib
import re
import tomllib

import pytest

from cudagraph_doctor.engine.registry import load_all

CATALOGUE = tomllib.loads(pathlib.Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
BLOCKS = {
    "capture_status": "CGD1",
    "context_binding": "CGD2",
    "module_loading": "CGD3",
    "launch_resources": "CGD5",
}
HEADINGS = ["What it detects", "Why it breaks", "Bad", "Good", "Evidence needed"]
OURS = [one.checker for one in load_all() if one.name in BLOCKS]
RULES = [rule for checker in OURS for rule in checker.rules]


def test_every_rule_of_the_first_block_has_a_checker():
    checker = next(c for c in OURS if c.name == "capture_status")
    assert {rule.id for rule in checker.rules} == {id_ for id_ in CATALOGUE if id_.startswith("CGD1")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rule_equals_the_catalogue(rule):
    entry = CATALOGUE[rule.id]
    assert (rule.slug, rule.level.value, rule.what) == (entry["slug"], entry["level"], entry["what"])


@pytest.mark.parametrize("checker", OURS, ids=lambda checker: checker.name)
def test_a_checker_owns_one_block(checker):
    assert all(rule.id.startswith(BLOCKS[checker.name]) for rule in checker.rules)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_text_has_its_headings_in_order(rule):
    assert re.findall(r"^## (.+)$", rule.text, re.MULTILINE) == HEADINGS
    sections = re.split(r"^## .+$", rule.text, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_bad_and_good_are_python(rule):
    blocks = re.findall(r"```python\n(.*?)```", rule.text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, rule.id, "exec")
    assert blocks[0] != blocks[1]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_see_also_names_rules_of_the_catalogue(rule):
    assert rule.id not in rule.see_also
    assert all(other in CATALOGUE for other in rule.see_also)
