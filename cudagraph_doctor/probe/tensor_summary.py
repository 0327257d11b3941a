"""What a record says of an operator's arguments: addresses and shapes, never values.

Nothing here formats a tensor, reads its elements or makes a CUDA call. A tensor that stands for no memory of its own
(fake, functional, in a tracer's hands) is told apart, because then the operator is not about to run.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VALUE_LIMIT = 200
TENSOR_LIMIT = 64
"""Tensors told of one operator (foreach and concatenation take hundreds)."""
_DEPTH = 3
_PLACES = tuple(str(position) for position in range(256))
"""Positions of arguments as records name them; Python allows no operator of torch that many."""
_IMAGINARY = frozenset({"FakeTensor", "FunctionalTensor", "FakeScriptObject", "ProxyTensor"})


class Summary:
    """The tensors and plain values among the arguments, or the results, of one operator."""

    __slots__ = ("device", "host", "imaginary", "tensors", "values")

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.values: list[tuple[str, str]] = []
        self.device: int | None = None
        """Index of the first CUDA device among tensors and `device` arguments; -1 for "the current one"."""
        self.host = False
        """A tensor lies in host memory."""
        self.imaginary = False
        """An argument stands for no memory: the operator is traced, not run."""


class Summaries:
    """Makes summaries.

    Args:
        torch: the target's torch.
        pinned: says whether the memory at an address is page-locked, or None.
    """

    def __init__(self, torch: Any, pinned: Callable[[Any, int], bool | None]) -> None:
        self._tensor = torch.Tensor
        self._device_type = torch.device
        self._named = (torch.dtype, torch.layout, torch.memory_format)
        # The first does not materialise a copy-on-write storage; torch has it since 2.1.
        self._address = getattr(torch._C, "_data_address", None) or (lambda tensor: tensor.untyped_storage().data_ptr())
        self._functional = getattr(torch, "_is_functional_tensor", None)
        self._pinned = pinned
        self._dtypes: dict[Any, str] = {}
        self._devices: dict[Any, str] = {}

    def of_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], written: frozenset[str]) -> Summary:
        """Summary of the arguments of an operator."""
        summary = Summary()
        plain = self._tensor
        for position, value in enumerate(args):
            if type(value) is plain:
                self._add_tensor(summary, _PLACES[position], value, plain, written)
            elif value is not None:
                self._add(summary, _PLACES[position], value, written, 0)
        for name, value in kwargs.items():
            if value is not None:
                self._add(summary, name, value, written, 0)
        if summary.device is not None and summary.host:
            self._add_pinned(summary)
        return summary

    def of_results(self, results: Any, args: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Tensors of the results that are not arguments given back."""
        summary = Summary()
        known = {id(value) for value in args}
        for position, value in enumerate(results if type(results) in {tuple, list} else (results,)):
            if id(value) not in known:
                self._add(summary, f"r{position}", value, frozenset(), 1)
        return summary.tensors

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _add(self, summary: Summary, place: str, value: Any, written: frozenset[str], depth: int) -> None:
        kind = type(value)
        if isinstance(value, self._tensor):
            self._add_tensor(summary, place, value, kind, written)
        elif value is None:
            return
        elif kind in {list, tuple}:
            self._add_list(summary, place, value, written, depth)
        elif kind in {bool, int, float, complex}:
            summary.values.append((place, repr(value)))
        elif kind is str:
            summary.values.append((place, value[:VALUE_LIMIT]))
        elif isinstance(value, self._device_type):
            summary.values.append((place, str(value)))
            if value.type == "cuda" and summary.device is None:
                summary.device = -1 if value.index is None else value.index
        elif isinstance(value, self._named):
            summary.values.append((place, self._dtype(value)))

    def _add_list(self, summary: Summary, place: str, value: Any, written: frozenset[str], depth: int) -> None:
        if depth >= _DEPTH or not value:
            return
        if all(type(item) in {int, float, bool} for item in value):
            summary.values.append((place, repr(list(value[:64]))[:VALUE_LIMIT]))
            return
        inner = frozenset({"*"}) if place in written else written if "*" in written else frozenset()
        for position, item in enumerate(value[:TENSOR_LIMIT]):
            self._add(summary, f"{place}.{position}", item, inner, depth + 1)

    def _add_tensor(self, summary: Summary, place: str, tensor: Any, kind: type, written: frozenset[str]) -> None:
        if kind.__name__ in _IMAGINARY or (self._functional is not None and self._functional(tensor)):
            summary.imaginary = True
            return
        if kind.__name__ == "DTensor" and isinstance(getattr(tensor, "_local_tensor", None), self._tensor):
            tensor = tensor._local_tensor
        device = tensor.device
        where = self._devices.get(device)
        if where is None:
            where = self._devices[device] = str(device)
        if where == "cpu":
            summary.host = True
        elif device.type == "cuda" and (summary.device is None or summary.device < 0):
            summary.device = device.index
        if len(summary.tensors) >= TENSOR_LIMIT:
            return
        try:
            told: dict[str, Any] = {
                "at": place,
                "ptr": hex(self._address(tensor)),
                "size": tensor.untyped_storage().nbytes(),
                "dev": where,
                "dtype": self._dtypes.get(tensor.dtype) or self._dtype(tensor.dtype),
                "shape": [length if type(length) is int else -1 for length in tensor.shape],
            }
            offset = tensor.storage_offset()
        except Exception:  # no storage, or no shape, that it would tell (sparse, nested, a wrapper of others)
            told, offset = {"at": place, "ptr": "0x0", "size": 0, "dev": where}, 0
        if offset:
            told["offset"] = offset * tensor.element_size()
        if place in written or "*" in written:
            told["written"] = True
        summary.tensors.append(told)

    def _add_pinned(self, summary: Summary) -> None:
        """Whether each CPU tensor beside a CUDA one is page-locked: what a copy between them depends on."""
        for told in summary.tensors:
            if told["dev"] == "cpu" and told["size"] and self._pinned(told, int(told["ptr"], 16)):
                told["pinned"] = True

    def _dtype(self, value: Any) -> str:
        known = self._dtypes.get(value)
        if known is None:
            known = self._dtypes[value] = str(value).removeprefix("torch.")
        return known
