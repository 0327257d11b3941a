from __future__ import annotations

import pytest

from cudagraph_doctor.errors import UsageError
from cudagraph_doctor.gate.conditions import parse_condition, parse_conditions, parse_size, shown_size


@pytest.mark.parametrize(
    ("text", "before", "after", "exceeded"),
    [
        ("nodes>5%", 100, 105, False),
        ("nodes>5%", 100, 106, True),
        ("nodes>5%", 100, 94, True),
        ("nodes>5%", 0, 1, True),
        ("nodes>5%", 0, 0, False),
        ("nodes>0", 100, 99, True),
        ("pool>10%", 100, 111, True),
        ("pool>10%", 100, 10, False),
        ("escapes>0", 0, 1, True),
        ("escapes>0", 1, 1, False),
        ("captures<4", 9, 3, True),
        ("captures<4", 9, 4, False),
        ("captures<100%", 4, 3, True),
        ("captures<100%", 4, 4, False),
        (" Pool > 1.5 % ", 1000, 1016, True),
    ],
)
def test_comparison(text, before, after, exceeded):
    assert parse_condition(text).exceeded(before, after) is exceeded


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nods>5%", "did you mean nodes?"),
        ("nodes<5", "write nodes>5"),
        ("captures>3", "write captures<3"),
        ("nodes>", "an example"),
        ("nodes>5%%", "an example"),
        ("nodes=5", "an example"),
        ("nodes>-5", "an example"),
        ("nodes>1e9", "an example"),
        ("nodes>١", "an example"),
        ("", "an example"),
        (",,", "an example"),
    ],
)
def test_what_is_not_understood_gets_a_way_out(text, said):
    with pytest.raises(UsageError) as caught:
        parse_conditions(text)
    assert said in caught.value.hint


def test_several():
    assert [c.quantity for c in parse_conditions("nodes>5%,pool>10%,escapes>0,skips>0,captures<4")] == [
        "nodes", "pool", "escapes", "skips", "captures",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("512 MiB", 512 * 2**20), ("1.5G", 3 * 2**29), ("2kb", 2048), ("0", 0)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


def test_sizes_are_shown():
    assert [shown_size(n) for n in (0, 1023, 2048, 5 * 2**40)] == ["0 B", "1,023 B", "2.0 KiB", "5.0 TiB"]
