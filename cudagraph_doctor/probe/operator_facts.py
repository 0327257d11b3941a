"""What is known of a torch operator from its schema, once for each overload."""

from __future__ import annotations

from json.encoder import encode_basestring as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ALLOCATES = frozenset({
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::empty_permuted", "aten::empty_quantized",
    "aten::new_empty", "aten::new_empty_strided", "aten::resize_", "aten::_resize_output_", "aten::pin_memory",
    "aten::_pin_memory", "aten::_efficientzerotensor",
})  # fmt: skip
"""Operators that only get memory."""

METADATA = frozenset({
    "aten::_unsafe_view", "aten::record_stream", "aten::set_", "aten::is_pinned", "aten::_reshape_alias",
    "aten::lift_fresh", "aten::lift", "aten::_version", "aten::set_data", "aten::requires_grad_", "aten::is_same_size",
    "prim::device", "prim::layout",
})  # fmt: skip
"""Operators that put no work on the device and whose schema does not say so."""


class OperatorFacts:
    """Name, kind and written arguments of an operator."""

    __slots__ = ("call", "composite", "kind", "name", "operator", "overload", "told", "written")

    def __init__(
        self, operator: Any, name: str, overload: str, kind: str, written: frozenset[str], *, composite: bool
    ) -> None:
        self.operator = operator
        self.call = _call_of(operator)
        """Calls it: its function in C where its class would do nothing else."""
        self.name = name
        """`aten::copy_`."""
        self.overload = overload
        self.kind = kind
        """`compute`, `view` or `alloc`, as for CUDA arguments."""
        self.written = written
        """Places of the arguments that it writes: positions and names."""
        self.composite = composite
        """It is nothing but other operators, in C++ (CompositeImplicitAutograd)."""
        shown = f',"overload":{quoted(overload)}' if overload != "default" else ""
        self.told = f',"name":{quoted(name)}{shown}'
        """Name and overload as the text of a record."""


def facts_of(operator: Any, torch: Any) -> OperatorFacts:
    """Facts of an `OpOverload`; of a higher-order operator, or anything else that is dispatched, its name alone."""
    schema = getattr(operator, "_schema", None)
    if schema is None:
        name = getattr(operator, "__name__", type(operator).__name__)
        return OperatorFacts(operator, f"higher_order::{name}", "default", "compute", frozenset(), composite=False)
    written: set[str] = set()
    for position, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        if alias is not None and alias.is_write:
            written.update((str(position), argument.name))
    aliases = [returned.alias_info for returned in schema.returns]
    name = schema.name
    if name in ALLOCATES:
        kind = "alloc"
    elif name in METADATA or (not written and any(alias is not None and not alias.is_write for alias in aliases)):
        kind = "view"
    else:
        kind = "compute"
    composite = _is_composite(operator, torch)
    overload = schema.overload_name or "default"
    return OperatorFacts(operator, name, overload, kind, frozenset(written), composite=composite)


def _is_composite(operator: Any, torch: Any) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if key in operator.py_kernels or not hasattr(operator, "_op_dk"):
        return False
    name = operator.name()
    return bool(has_kernel(name, key)) and not has_kernel(name, torch._C.DispatchKey.CUDA)


def _call_of(operator: Any) -> Any:
    """`OpOverload.__call__` only hands its arguments to `_op` (2.14: unless a dispatcher in Python has it)."""
    kind = type(operator)
    if kind.__name__ != "OpOverload" or kind.__module__ != "torch._ops" or "_op" not in kind.__call__.__code__.co_names:
        return operator
    return operator._op if getattr(operator, "_pyobj_dispatcher", None) is None else operator
