"""Storages by number, and their death, on CPU tensors: the bytes that are watched are the same."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pytest

from cudagraph_doctor.probe.config import Config
from cudagraph_doctor.probe.context import Context
from cudagraph_doctor.probe.liveness.allocator_map import AllocatorMap
from cudagraph_doctor.probe.liveness.pool_order import FIRST, Pools, SharedPool
from cudagraph_doctor.probe.liveness.storage_layout import layout_of
from cudagraph_doctor.probe.liveness.storages import Storages, Uses
from cudagraph_doctor.probe.liveness.watch import Watch
from cudagraph_doctor.probe.region.held import Holding
from cudagraph_doctor.probe.tensor_reference import let_go
from cudagraph_doctor.probe.writer import Writer

torch = pytest.importorskip("torch")


@pytest.fixture
def storages(tmp_path: Any) -> Storages:
    config = Config({"trace": str(tmp_path), "target": "", "cwd": "", "device": "cuda"}, "run")
    made = Storages(Context(config, Writer(str(tmp_path), list)))
    layout = layout_of(torch)
    assert layout is not None
    made.start(torch, layout)
    return made


def _meet(storages: Storages, uses: Uses, tensor: Any) -> int:
    storage = tensor.untyped_storage()
    return storages.meet(uses, tensor, storage, storage._cdata, "cpu", 1)


def _born(storages: Storages, uses: Uses, tensor: Any) -> int:
    storage = tensor.untyped_storage()
    return storages.born(uses, storage, storage._cdata, "cpu", 5)


def test_views_share_a_number_and_a_new_storage_gets_another(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    first = _meet(storages, uses, tensor)
    assert uses.ids[tensor[2:].untyped_storage()._cdata] == first
    assert _meet(storages, uses, torch.zeros(8)) != first


def test_a_dead_storage_is_found_with_the_address_it_had(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    number, address = _meet(storages, uses, tensor), tensor.data_ptr()
    watch = Watch(1, list(uses.outside.values()), None)
    assert watch.changed() == []
    del tensor
    ((entry, old),) = watch.changed()
    assert (entry.id, old, entry.alive) == (number, address, False)
    assert entry.death is not None
    assert entry.death.certain
    assert watch.changed() == []  # told once


def test_a_storage_that_something_unknown_outlives_is_no_certain_death(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    _meet(storages, uses, tensor)
    alias = tensor.detach()
    (entry,) = uses.outside.values()
    del tensor
    assert entry.alive
    assert entry.death is not None
    assert not entry.death.certain
    del alias
    assert not entry.alive


def test_the_base_of_a_view_keeps_it_alive(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    _meet(storages, uses, tensor[2:])  # the view dies at once
    (entry,) = uses.outside.values()
    assert entry.death is None
    del tensor
    assert not entry.alive
    assert entry.death is not None


def test_a_resized_storage_has_moved(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    _meet(storages, uses, tensor)
    watch = Watch(1, list(uses.outside.values()), None)
    tensor.resize_(1 << 20)
    ((entry, old),) = watch.changed()
    assert entry.word.value == tensor.data_ptr() != old


def test_data_that_was_replaced_lets_the_old_storage_die(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    _meet(storages, uses, tensor)
    watch = Watch(1, list(uses.outside.values()), None)
    tensor.data = torch.ones(8)
    ((entry, _),) = watch.changed()
    assert not entry.alive
    assert entry.tensor() is tensor
    assert entry.death is None  # the tensor lives: nobody saw the line


def test_only_survivors_of_a_window_stay_known(storages: Storages) -> None:
    uses, kept, dropped = Uses(), torch.zeros(8), torch.zeros(8)
    number = _born(storages, uses, kept)
    _born(storages, uses, dropped)
    del dropped
    (entry,) = storages.survivors(uses, 3)
    assert (entry.id, entry.inside, entry.made, entry.cap) == (number, True, 5, 3)
    assert storages.number(kept.untyped_storage()._cdata) == number


def test_nothing_is_kept_alive(storages: Storages) -> None:
    uses, tensor = Uses(), torch.zeros(8)
    counts = sys.getrefcount(tensor)
    _meet(storages, uses, tensor)
    assert sys.getrefcount(tensor) == counts
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None


def test_swapping_tensors_works_once_we_let_go(storages: Storages) -> None:
    uses, one, other = Uses(), torch.zeros(8), torch.ones(8)
    _meet(storages, uses, one)
    with pytest.raises(RuntimeError, match="weakref"):
        torch.utils.swap_tensors(one, other)
    let_go(one)
    torch.utils.swap_tensors(one, other)
    assert float(one[0]) == 1


def test_swapping_tensors_works_beside_the_region_watch() -> None:
    one, other = torch.zeros(8), torch.ones(8)
    held = Holding(torch).of(one)
    assert held.object() is one
    with pytest.raises(RuntimeError, match="weakref"):
        torch.utils.swap_tensors(one, other)
    let_go(one)
    torch.utils.swap_tensors(one, other)
    assert held.object() is None


def test_a_weak_reference_of_the_targets_stays(storages: Storages) -> None:
    tensor = torch.zeros(8)
    theirs = weakref.ref(tensor)
    held = Holding(torch).of(tensor)
    _meet(storages, Uses(), tensor)
    let_go(tensor)
    assert weakref.getweakrefs(tensor) == [theirs]
    assert held.object() is None


def test_an_address_is_placed_by_segment_and_block() -> None:
    blocks = [{"size": 512, "state": "active_allocated"}, {"size": 512, "state": "inactive"}]
    seen = AllocatorMap(
        [
            {"address": 4096, "total_size": 1024, "segment_pool_id": (0, 0), "blocks": blocks},
            {"address": 65536, "total_size": 512, "segment_pool_id": (0, 7), "blocks": blocks[:1]},
        ]
    )
    assert [seen.pool(address) for address in (4096, 65600, 8192)] == ["general", "0,7", ""]
    assert [seen.state(address) for address in (4100, 4700, 8192)] == ["used", "cached", "unmapped"]


def test_replays_of_a_shared_pool_are_told_until_their_order_is_known() -> None:
    pools, one, other = Pools(), Watch(1, [], None), Watch(2, [], None)
    pools.join("0,1", one)
    assert one.pool is None  # nobody shares it
    pools.join("0,1", other)
    pool = one.pool
    assert isinstance(pool, SharedPool)
    assert other.pool is pool
    assert [pool.news(one, 1, 9), pool.news(other, 2, 9)] == [0, 1]
    for _ in range(FIRST):
        pool.news(one, 1, 9)
        pool.news(other, 2, 9)
    assert pool.news(one, 1, 9) is None
    assert pool.news(other, 2, 8) == 1  # on another stream than the one before it
