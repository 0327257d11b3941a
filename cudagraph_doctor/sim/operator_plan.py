"""What the launch path needs to know of an operator, worked out once from its schema."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch


class ArgumentKind(enum.Enum):
    """What a positional argument is to the geometry of the result."""

    TENSOR = 1
    TENSORS = 2
    NUMBER = 3
    """A Scalar: its type decides, not its value."""
    VALUE = 4
    MIXED = 5
    """A list of tensors with gaps."""


class OperatorPlan:
    """An operator, by what it does with its arguments."""

    __slots__ = (
        "argument_kinds",
        "call",
        "device_place",
        "generator_place",
        "has_generator",
        "in_place",
        "name",
        "op",
        "out_call",
        "plannable",
        "qualified",
        "random",
        "returns",
        "substituted",
        "tensor_names",
        "tensor_places",
        "view",
        "written",
    )

    def __init__(self, op: Any, substitute: Any | None = None, substitute_out: Any | None = None) -> None:
        schema = op._schema
        self.op = op
        self.call = substitute or op._op
        """Computes it on CPU (and meta) tensors."""
        self.substituted = substitute is not None
        self.qualified: str = schema.name
        self.name: str = schema.name.partition("::")[2]
        places = {argument.name: place for place, argument in enumerate(schema.arguments)}
        tensors = [argument for argument in schema.arguments if "Tensor" in str(argument.type)]
        self.tensor_places = tuple(places[argument.name] for argument in tensors if not argument.kwarg_only)
        self.tensor_names = frozenset(argument.name for argument in tensors)
        self.written = tuple(
            (places[argument.name], argument.name)
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        """(position, name) of the arguments that it writes."""
        self.view = torch.Tag.inplace_view in op.tags or any(
            result.alias_info is not None and not result.alias_info.is_write for result in schema.returns
        )
        """Changes or makes metadata only."""
        self.returns: tuple[tuple[int, str] | None, ...] = tuple(
            self._written_twin(schema, result.alias_info) for result in schema.returns
        )
        """For each result the argument that it is, or None for a new tensor."""
        self.in_place = bool(self.written) and None not in self.returns and self.written[0][1] == "self"
        """Writes its first argument and makes nothing new: its shapes are known."""
        self.generator_place = places.get("generator")
        self.has_generator = "generator" in places
        self.random = torch.Tag.nondeterministic_seeded in op.tags
        self.device_place = places.get("device")
        self.out_call = None if self.written or self.random or self.view else _out_variant(op, substitute)
        """Computes it into `out=`; None if the CPU has no kernel that does."""
        if substitute_out is not None:
            self.out_call = substitute_out
        if _refuses_numbers(op):
            self.call = _with_numbers_as_tensors(self.call, self.tensor_places)
            if self.out_call is not None:
                self.out_call = _with_numbers_as_tensors(self.out_call, self.tensor_places)
        self.argument_kinds = tuple(_kind(str(a.type)) for a in schema.arguments if not a.kwarg_only)
        self.plannable = self._has_known_geometry()
        """The result's geometry follows from the arguments' geometry and from numbers: see `planned_launch`."""

    def _has_known_geometry(self) -> bool:
        if self.has_generator or self.random or self.view or self.device_place is not None:
            return False
        kinds = set(self.argument_kinds)
        if ArgumentKind.MIXED in kinds or kinds.isdisjoint((ArgumentKind.TENSOR, ArgumentKind.TENSORS)):
            return False
        if torch._C._dispatch_has_kernel_for_dispatch_key(self.op.name(), "Negative"):
            return False  # operands with the negative bit reach the kernel
        if self.in_place:
            return len(self.written) == len(self.returns) == 1 and self.argument_kinds[0] is ArgumentKind.TENSOR
        return self.out_call is not None

    @staticmethod
    def _written_twin(schema: Any, result: Any) -> tuple[int, str] | None:
        if result is None or not result.is_write:
            return None
        for place, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.before_set == result.before_set:
                return place, argument.name
        return None


def _refuses_numbers(op: Any) -> bool:
    """Whether Python may not call it with a number for a tensor, as its own overload for numbers does from C++."""
    namespace, _, name = op._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    if torch._C._should_allow_numbers_as_tensors(name.removesuffix("_")):
        return False
    return any("Scalar" in overload for overload in packet.overloads())


def _with_numbers_as_tensors(call: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for place in places:
            if place < len(given) and isinstance(given[place], (bool, int, float, complex)):
                given[place] = torch.tensor(given[place], device="cpu")
        return call(*given, **kwargs)

    return called


def _kind(type_name: str) -> ArgumentKind:
    if type_name in ("Tensor", "Optional[Tensor]"):
        return ArgumentKind.TENSOR
    if type_name == "List[Tensor]":
        return ArgumentKind.TENSORS
    if "Tensor" in type_name:
        return ArgumentKind.MIXED
    return ArgumentKind.NUMBER if type_name in ("number", "Optional[number]") else ArgumentKind.VALUE


def _relu(x: Any, out: Any) -> Any:
    return torch._C._VariableFunctions.clamp_min(x, 0, out=out)


_TWINS = {"aten::relu": _relu}
"""`out=` variants of operators that have none with a kernel: relu is defined as clamp_min with 0."""

_RESIZING = frozenset({"binary_cross_entropy", "huber_loss", "mse_loss", "smooth_l1_loss", "soft_margin_loss"})
"""Operators whose `out=` kernel uses the output for something larger first, and warns of the resize."""

_BOUND = frozenset({
    "abs", "add", "addmm", "baddbmm", "bmm", "clamp_min", "cos", "div", "eq", "exp", "ge", "gt", "le", "lt", "maximum",
    "minimum", "mm", "mul", "ne", "neg", "reciprocal", "rsqrt", "sigmoid", "sin", "sqrt", "sub", "tanh",
})  # fmt: skip
"""Operators whose Python binding takes what the operator takes: half the time of a call by overload."""


def _out_variant(op: Any, substitute: Any | None) -> Any | None:
    """The overload of `op` that takes the same arguments and one `out=`, or None.

    A replay with it writes straight into the node's output.
    """
    schema = op._schema
    if op._opname in _RESIZING:
        return None
    if (twin := _TWINS.get(op.name())) is not None:
        return twin
    if substitute is not None or len(schema.returns) != 1 or str(schema.returns[0].type) != "Tensor":
        return None
    name = schema.overload_name
    candidates = (f"{name}_out" if name else "out", "out")
    wanted = [(argument.name, str(argument.type)) for argument in schema.arguments]
    for overload in candidates:
        twin = getattr(op.overloadpacket, overload, None)
        if twin is None:
            continue
        arguments = twin._schema.arguments
        outs = [argument.name for argument in arguments if argument.alias_info is not None]
        same = [(argument.name, str(argument.type)) for argument in arguments if argument.alias_info is None]
        if outs == ["out"] and same == wanted and _has_kernel(twin.name()):
            return getattr(torch._C._VariableFunctions, op._opname) if op._opname in _BOUND else twin._op
    return None


def _has_kernel(name: str) -> bool:
    """A CPU kernel of its own: composite out variants compute a temporary and copy."""
    has: bool = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
    return has
