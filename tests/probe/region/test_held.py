"""What is remembered of a value, on CPU tensors."""

from __future__ import annotations

import pytest

from cudagraph_doctor.probe.liveness.owners import Owners
from cudagraph_doctor.probe.region.held import Holding

torch = pytest.importorskip("torch")


def test_a_view_is_told_by_its_own_first_byte_and_element() -> None:
    base = torch.arange(8, dtype=torch.int64)
    holding = Holding(torch)
    held = holding.of(base[3:4])
    assert (held.ptr, held.content) == (base[3:4].data_ptr(), "3")
    assert not held.same(holding.of(base[5:6]))


def test_an_owner_is_looked_for_by_its_storage() -> None:
    base = torch.zeros(8)
    assert Owners(torch).address(base[3:]) == base.data_ptr()
