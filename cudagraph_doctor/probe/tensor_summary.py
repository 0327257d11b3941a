"""What a record says of an operator's arguments: addresses and shapes, never values.

Nothing here formats a tensor, reads its elements or makes a CUDA call. A tensor that stands for no memory of its own
(fake, functional, in a tracer's hands) is told apart, because then the operator is not about to run.

It runs twice an operator, so it makes the text of the record at once: objects that an encoder then goes through cost
three times as much.
"""

from __future__ import annotations

from json.encoder import encode_basestring as quoted

from cudagraph_doctor.probe.storage_address import storage_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.liveness.storages import Storages, Uses

VALUE_LIMIT = 200
TENSOR_LIMIT = 64
"""Tensors told of one operator (foreach and concatenation take hundreds)."""
LIST_LIMIT = 4096
"""Tensors of a list whose storages get a number, told or not."""
_DEPTH = 3
_PLACES = tuple(str(position) for position in range(256))
"""Positions of arguments as records name them; Python allows no operator of torch that many."""
_SHAPES = 2000
"""Shapes whose text is kept."""
_IMAGINARY = frozenset({"FakeTensor", "FunctionalTensor", "FakeScriptObject", "ProxyTensor"})
_NOTHING: frozenset[str] = frozenset()


class Summary:
    """The tensors and plain values among the arguments, or the results, of one operator."""

    __slots__ = ("cap", "device", "host", "imaginary", "made", "staged", "tensors", "uses", "values")

    def __init__(self, uses: Uses | None = None, cap: int = 0, made: int | None = None) -> None:
        self.uses = uses
        """The storages that the window used so far."""
        self.cap = cap
        """Id of the window's capture."""
        self.made = made
        """Of results: stack of the operator; None for arguments."""
        self.tensors: list[str] = []
        """Each as the JSON text of a `Tensor`."""
        self.values: list[str] = []
        """Each as the JSON text of a pair (place, value)."""
        self.device: int | None = None
        """Index of the first CUDA device among tensors and `device` arguments; -1 for "the current one"."""
        self.host: list[tuple[int, int]] = []
        """(position among `tensors`, address) of those that lie in host memory; address 0 for one without any."""
        self.staged: list[int] = []
        """Numbers of the storages in host memory."""
        self.imaginary = False
        """An argument stands for no memory: the operator is traced, not run."""


class Summaries:
    """Makes summaries.

    Args:
        torch: the target's torch.
        pinned: says whether the memory at an address is page-locked, or None.
        storages: gives storages their numbers.
    """

    def __init__(self, torch: Any, pinned: Callable[[int], bool | None], storages: Storages | None = None) -> None:
        self._storages = storages
        self._tensor = torch.Tensor
        self._plain = frozenset({torch.Tensor, torch.nn.Parameter})
        self._device_type = torch.device
        self._named = (torch.dtype, torch.layout, torch.memory_format)
        self._address = storage_address(torch)
        self._functional = getattr(torch, "_is_functional_tensor", None)
        self._function_modes = torch._C._len_torch_function_stack
        self._quiet = torch._C.DisableTorchFunction
        self._pinned = pinned
        self._dtypes: dict[Any, str] = {}
        self._devices: dict[Any, tuple[str, int | None, bool]] = {}
        """Device → its name, its index where it is CUDA's, whether it is the host."""
        self._shapes: dict[Any, str] = {}

    def of_arguments(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: frozenset[str],
        uses: Uses | None = None,
        cap: int = 0,
    ) -> Summary:
        """Summary of the arguments of an operator, which runs in the window of capture `cap`."""
        summary = Summary(uses, cap)
        if self._function_modes():  # they would see the attributes that are read here
            with self._quiet():
                self._add_arguments(summary, args, kwargs, written)
        else:
            self._add_arguments(summary, args, kwargs, written)
        if summary.device is not None and summary.host:
            self._add_pinned(summary)
        return summary

    def of_results(
        self, results: Any, args: tuple[Any, ...], uses: Uses | None = None, cap: int = 0, stack: int = 0
    ) -> list[str]:
        """Tensors of the results that are not arguments given back."""
        summary = Summary(uses, cap, stack)
        if type(results) in self._plain and not self._function_modes():
            for value in args:
                if value is results:
                    return summary.tensors
            self._add_tensor(summary, "r0", results, _NOTHING)
            return summary.tensors
        known = {id(value) for value in args}
        with self._quiet():
            for position, value in enumerate(results if type(results) in {tuple, list} else (results,)):
                if id(value) not in known:
                    self._add(summary, f"r{position}", value, _NOTHING, 1)
        return summary.tensors

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _add_arguments(
        self, summary: Summary, args: tuple[Any, ...], kwargs: dict[str, Any], written: frozenset[str]
    ) -> None:
        plain = self._plain
        for place, value in zip(_PLACES, args):  # noqa: B905 - the places are more
            if type(value) in plain:
                self._add_tensor(summary, place, value, written)
            elif value is not None:
                self._add(summary, place, value, written, 0)
        if kwargs:
            for name, value in kwargs.items():
                if value is not None:
                    self._add(summary, name, value, written, 0)

    def _add(self, summary: Summary, place: str, value: Any, written: frozenset[str], depth: int) -> None:
        kind = type(value)
        if kind is int or kind is bool:
            summary.values.append(f'["{place}","{value}"]')
        elif kind is float or kind is complex:
            summary.values.append(f'["{place}","{value!r}"]')
        elif isinstance(value, self._tensor):
            if kind in self._plain:
                self._add_tensor(summary, place, value, written)
            else:
                self._add_subclass(summary, place, value, written)
        elif value is None:
            return
        elif kind in {list, tuple}:
            self._add_list(summary, place, value, written, depth)
        elif kind is str:
            summary.values.append(f'["{place}",{quoted(value[:VALUE_LIMIT])}]')
        elif isinstance(value, self._device_type):
            summary.values.append(f'["{place}","{value}"]')
            if value.type == "cuda" and summary.device is None:
                summary.device = -1 if value.index is None else value.index
        elif isinstance(value, self._named):
            summary.values.append(f'["{place}","{self._dtype(value)}"]')

    def _add_list(self, summary: Summary, place: str, value: Any, written: frozenset[str], depth: int) -> None:
        if depth >= _DEPTH or not value:
            return
        if all(type(item) in {int, float, bool} for item in value):
            summary.values.append(f'["{place}",{quoted(repr(list(value[:64]))[:VALUE_LIMIT])}]')
            return
        inner = frozenset({"*"}) if place in written else written if "*" in written else _NOTHING
        for position, item in enumerate(value[:TENSOR_LIMIT]):
            self._add(summary, f"{place}.{position}", item, inner, depth + 1)
        for item in value[TENSOR_LIMIT:LIST_LIMIT]:
            if type(item) in self._plain:
                self._only_meet(summary, item, str(item.device))

    def _add_subclass(self, summary: Summary, place: str, tensor: Any, written: frozenset[str]) -> None:
        with self._quiet():
            kind = type(tensor).__name__
            if kind in _IMAGINARY or (self._functional is not None and self._functional(tensor)):
                summary.imaginary = True
                return
            if kind == "DTensor" and isinstance(getattr(tensor, "_local_tensor", None), self._tensor):
                tensor = tensor._local_tensor
            self._add_tensor(summary, place, tensor, written)

    def _add_tensor(self, summary: Summary, place: str, tensor: Any, written: frozenset[str]) -> None:
        device = tensor.device
        name, index, host = self._devices.get(device) or self._learn_device(device)
        if index is not None and (summary.device is None or summary.device < 0):
            summary.device = index
        tensors = summary.tensors
        if len(tensors) >= TENSOR_LIMIT:
            if host:
                summary.host.append((-1, 0))
            self._only_meet(summary, tensor, name)
            return
        address = 0
        try:
            address = self._address(tensor)
            storage = tensor.untyped_storage()
            size = storage.nbytes()
            shape = tensor.shape
            dtype = tensor.dtype
            text = (
                f'{{"at":"{place}","ptr":"{address:#x}","size":{size},"dev":"{name}",'
                f'"dtype":"{self._dtypes.get(dtype) or self._dtype(dtype)}",'
                f'"shape":{self._shapes.get(shape) or self._shape(shape)}'
            )
            offset = tensor.storage_offset()
            if offset:
                text += f',"offset":{offset * tensor.element_size()}'
            uses = summary.uses
            if uses is not None and size:
                number = uses.ids.get(storage._cdata) or self._meet(summary, uses, tensor, storage, name)
                if number:
                    text += f',"storage":{number}'
                    if host:
                        summary.staged.append(number)
        except Exception:  # no storage, or no shape, that it would tell (sparse, nested, a wrapper of others)
            text = f'{{"at":"{place}","ptr":"0x0","size":0,"dev":"{name}"'
            size = 0
        if not address and self._functional is not None and self._functional(tensor):
            summary.imaginary = True
            return
        if host:
            summary.host.append((len(tensors), address if size else 0))
        if written and (place in written or "*" in written):
            text += ',"written":true'
        tensors.append(text + "}")

    def _meet(self, summary: Summary, uses: Uses, tensor: Any, storage: Any, device: str) -> int:
        """The number of a storage that the window has not met yet; 0 if it gets none."""
        storages = self._storages
        if storages is None or device == "meta":
            return 0
        if summary.made is None:
            return storages.meet(uses, tensor, storage, storage._cdata, device, summary.cap)
        return storages.born(uses, storage, storage._cdata, device, summary.made)

    def _only_meet(self, summary: Summary, tensor: Any, device: str) -> None:
        """A tensor that is not told: its storage is watched all the same."""
        uses = summary.uses
        if uses is None:
            return
        try:
            storage = tensor.untyped_storage()
            if storage._cdata not in uses.ids and storage.nbytes():
                self._meet(summary, uses, tensor, storage, device)
        except Exception:
            return  # it has no storage

    def _add_pinned(self, summary: Summary) -> None:
        """Whether each CPU tensor beside a CUDA one is page-locked: what a copy between them depends on."""
        tensors = summary.tensors
        for position, address in summary.host:
            if address and self._pinned(address):
                tensors[position] = tensors[position][:-1] + ',"pinned":true}'

    def _learn_device(self, device: Any) -> tuple[str, int | None, bool]:
        name = str(device)
        found = self._devices[device] = (name, device.index if device.type == "cuda" else None, name == "cpu")
        return found

    def _dtype(self, value: Any) -> str:
        known = self._dtypes.get(value)
        if known is None:
            known = self._dtypes[value] = str(value).removeprefix("torch.")
        return known

    def _shape(self, shape: Any) -> str:
        """A shape as JSON, -1 for a length that is no plain number."""
        plain = [length if type(length) is int else -1 for length in shape]
        text = str(plain).replace(" ", "")
        if -1 not in plain and len(self._shapes) < _SHAPES:
            self._shapes[shape] = text
        return text
