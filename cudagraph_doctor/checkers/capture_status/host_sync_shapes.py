"""Changed code for results whose size only the GPU knows, and for solvers that check on the host: static forms."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.edit import replace_nodes, replace_statement
from cudagraph_doctor.checkers.code.expression import Expression, called
from cudagraph_doctor.checkers.invalidation.operators import inputs

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.findings import Fix, Location

# Solvers with a variant that leaves the check to the caller, and the field of its result that is the plain result.
_EX = {
    "inv": "inverse",
    "inverse": "inverse",
    "cholesky": "L",
    "solve": "result",
    "ldl_factor": "LD",
    "lu_factor": "LU",
}


def static_shape(found: Expression, location: Location, cause: Cause) -> Fix | None:
    """The same calculation with a size that is fixed; None where no such form is known."""
    node, statement = found.node, found.statement
    if node is None or statement is None:
        return None
    if isinstance(node, ast.Subscript):
        if cause.why not in {"mask", "data-dependent"}:
            return None
        if isinstance(node.ctx, ast.Store):
            return _masked_store(found, location, node, cause)
        return _masked_load(found, location, node, cause)
    new = _call(found, node, cause) if isinstance(node, ast.Call) else None
    return replace_nodes(found.source, location, statement, {node: new}) if new is not None else None


def _masked_load(found: Expression, location: Location, node: ast.Subscript, cause: Cause) -> Fix | None:
    """`probs[keep]` becomes `torch.where(keep, probs, 0)`: as many elements as before the mask."""
    assert found.statement is not None
    mask = _widened(found.full(node.slice), cause)
    new = f"torch.where({mask}, {found.full(node.value)}, 0)"
    return replace_nodes(found.source, location, found.statement, {node: new}, "keeps its shape; masked elements are 0")


def _masked_store(found: Expression, location: Location, node: ast.Subscript, cause: Cause) -> Fix | None:
    """`z[mask] = v` becomes `z.copy_(torch.where(mask, v, z))`."""
    statement = found.statement
    if not isinstance(statement, ast.Assign) or statement.targets != [node]:
        return None
    target, mask = found.full(node.value), _widened(found.full(node.slice), cause)
    new = f"{target}.copy_(torch.where({mask}, {found.full(statement.value)}, {target}))"
    fixed = replace_statement(found.source, location, statement, new)
    return fixed or replace_nodes(found.source, location, statement, {node: f"{target}[:]", statement.value: new})


def _widened(mask: str, cause: Cause) -> str:
    """The mask with as many dimensions as what it selects from, where the operator's shapes are known."""
    tensors = inputs(cause.op) if cause.op is not None else ()
    if len(tensors) > 1 and tensors[0].shape and tensors[1].shape:
        missing = len(tensors[0].shape) - len(tensors[1].shape)
        if missing > 0:
            return f"({mask})[{', '.join(['...', *['None'] * missing])}]"
    return mask


def _call(found: Expression, node: ast.Call, cause: Cause) -> str | None:
    """Calls with a known static form."""
    name, args = called(node), [found.full(a) for a in node.args]
    owner = found.full(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    of_torch = owner == "torch"
    subject = args[0] if of_torch and args else owner
    if not subject:
        return None
    if name in _EX and (("linalg" in owner and args) or (of_torch and name in {"inverse", "cholesky"})):
        module = owner if "linalg" in owner else "torch.linalg"
        plain = "inv" if name == "inverse" else name
        return f"{module}.{plain}_ex({', '.join(_arguments(found, node))}).{_EX[name]}"
    if name == "nonzero":
        return f"torch.nonzero_static({subject}, size={subject}.numel())" if _simple(subject) else None
    if name == "where" and of_torch and len(args) == 1:
        return f"torch.nonzero_static({subject}, size=({subject}).numel()).unbind(1)"
    if name == "masked_select":
        mask = args[-1]
        return f"torch.where({mask}, {subject}, 0)" if args else None
    if name == "equal" and args:
        other = args[-1]
        return f"({subject} == {other}).all()"
    if name == "multinomial" and _one_sample(node, of_torch):
        return f"({subject} / torch.empty_like({subject}).exponential_()).argmax(-1, keepdim=True)"
    if name == "clip_grad_norm_" and cause.op is not None:
        kept = [a for a in _arguments(found, node) if not a.startswith("error_if_nonfinite")]
        return f"{found.full(node.func)}({', '.join(kept)})"
    return None


def _arguments(found: Expression, node: ast.Call) -> list[str]:
    named = [f"{k.arg}={found.full(k.value)}" if k.arg else f"**{found.full(k.value)}" for k in node.keywords]
    return [*(found.full(a) for a in node.args), *named]


def _one_sample(node: ast.Call, of_torch: bool) -> bool:
    values = [*node.args[1 if of_torch else 0 :], *(k.value for k in node.keywords if k.arg == "num_samples")]
    return bool(values) and isinstance(values[0], ast.Constant) and values[0].value == 1


def _simple(text: str) -> bool:
    """Short enough to be written twice."""
    return len(text) <= 40
