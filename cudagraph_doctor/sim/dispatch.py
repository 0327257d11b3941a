"""Registration of the simulated kernels with PyTorch's dispatcher, on its CUDA key.

A CPU build has almost nothing on that key; a CUDA build has its real kernels, which are replaced one by one (they would
win over a fallback). What stands behind each name:

- a special kernel of `kernels/`,
- the composite kernel, for operators that have one: it calls other operators, as in a build without that kernel,
- the launch path with the CPU kernel, for the rest. That includes structured operators: their composite would come back
  here twice, for the output and for the computation.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.kernels import copies, geometry
from cudagraph_doctor.sim.kernels.substitutes import ANSWERS, SUBSTITUTES
from cudagraph_doctor.sim.launch import Launcher
from cudagraph_doctor.sim.operator_plan import OperatorPlan
from cudagraph_doctor.sim.simulation import CPU_KEYS
from cudagraph_doctor.sim.tracebacks import hide, unseen

Kernel = Callable[..., object]

_COMPOSITE_KEYS = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
# A backend that nobody registers for: its slot holds the composite kernel, as CUDA's does in a CPU build.
_BLANK_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.VE)
COMPUTED_WHOLE = frozenset({"aten::convolution", "aten::convolution_backward", "aten::native_layer_norm"})
"""Composites that would choose among kernels by device, through stubs that are not dispatched, or that CUDA computes in
one kernel as the CPU does."""
_FOREIGN = ("c10d::", "symm_mem::", "_native::", "inductor_prims::")
"""Communication and generated code: not simulated, see `not_simulated`."""


class Registration:
    """The kernels that were registered. Must stay alive: PyTorch removes them with the library objects."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._special: dict[str, Kernel] = geometry.kernels(launcher) | copies.kernels(launcher) | ANSWERS
        self._libraries: dict[str, Any] = {}
        self._known: set[str] = set()
        fallback = torch.library.Library("_", "IMPL")
        fallback.fallback(unseen(self._fallback), "CUDA")
        self._libraries["_"] = fallback
        self._plans: dict[Any, Kernel] = {}
        self.register(_registered("CUDA") | _registered("CPU"))
        self._follow_loaded_libraries()

    def register(self, names: set[str]) -> None:
        """Put a kernel behind each of these operators."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch < 2.14 warns of each replaced kernel
            for name in sorted(names | self._special.keys() | COMPUTED_WHOLE | SUBSTITUTES.keys()):
                if name in self._known or not _exists(name):
                    continue
                kernel = self._kernel_for(name)
                if kernel is not None:
                    self._library(name.partition("::")[0]).impl(name, "CUDA", kernel, False)
                self._known.add(name)

    def _library(self, namespace: str) -> Any:
        library = self._libraries.get(namespace)
        if library is None:
            library = torch._C._dispatch_library("IMPL", namespace, "", __file__, 0)
            self._libraries[namespace] = library
        return library

    def _kernel_for(self, name: str) -> Kernel | None:
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if name in self._special:
            return self._launcher.entry(self._special[name])
        if name.startswith(_FOREIGN):
            return self._launcher.entry(self._refusal(name)) if has(name, "CUDA") else None
        computed = name in COMPUTED_WHOLE or name in SUBSTITUTES
        if not computed and (any(has(name, key) for key in _COMPOSITE_KEYS) or _composite_only(name)):
            return _composite(name) if has(name, "CUDA") else None
        if not computed and not name.startswith("aten::") and not has(name, "CUDA"):
            return None  # a CPU-only operator of an extension or of quantization
        return self._lazy(name)

    def _lazy(self, name: str) -> Kernel:
        """A kernel that looks its operator up at the first call: 1,300 look-ups would take a second."""
        kernel: Kernel | None = None

        def first(*args: object, **kwargs: object) -> object:
            nonlocal kernel
            try:
                if kernel is None:
                    kernel = self._resolve(find_operator(name))
                return kernel(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return first

    def _resolve(self, op: Any) -> Kernel:
        name: str = op.name()
        plan = OperatorPlan(op, SUBSTITUTES.get(name), SUBSTITUTES.get(f"{name}.out"))
        if plan.view:
            return functools.partial(op._handle.redispatch_boxed, CPU_KEYS)
        if not plan.substituted and not _computable(name):
            return self._launcher.entry(self._refusal(name))
        return self._launcher.kernel(plan)

    def _fallback(self, op: Any, *args: object, **kwargs: object) -> object:
        kernel = self._plans.get(op)
        if kernel is None:
            kernel = self._plans[op] = self._resolve(op)
        return kernel(*args, **kwargs)

    def _refusal(self, name: str) -> Kernel:
        def refuse(*_args: object, **_kwargs: object) -> object:
            raise self._launcher.sim.not_simulated(name, "it has no CPU kernel")

        return refuse

    def _follow_loaded_libraries(self) -> None:
        """Libraries such as torchvision bring CUDA kernels: the CPU kernels of the same operators stand in for them."""
        load = torch.ops.load_library

        def load_library(path: str) -> object:
            result = load(path)
            self.register({name for name in _registered("CUDA") - self._known if _computable(name)})
            return result

        torch.ops.load_library = load_library


def _registered(key: str) -> set[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name for name in names if name.startswith("aten::") or key == "CUDA"}


def _exists(name: str) -> bool:
    base, _, overload = name.partition(".")
    return torch._C._dispatch_find_schema_or_throw is not None and _schema_exists(base, overload)


def _schema_exists(base: str, overload: str) -> bool:
    try:
        torch._C._dispatch_find_schema_or_throw(base, overload)
    except RuntimeError:
        return False
    return True


def _computable(name: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("CPU", "CompositeExplicitAutogradNonFunctional", *_COMPOSITE_KEYS)
    return any(has(name, key) for key in keys)


def _composite_only(name: str) -> bool:
    """Not structured, and without a CPU kernel: `slice_scatter`, `as_strided_copy`.

    They look at the storage as a whole, and a host view's storage is the whole arena.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, "CompositeExplicitAutogradNonFunctional") and not has(name, "CPU")


def find_operator(name: str) -> Any:
    """The OpOverload of `aten::add.Tensor`."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def _composite(name: str) -> Kernel:
    op: Any = None

    @unseen
    def cuda_composite(*args: object, **kwargs: object) -> object:
        nonlocal op
        if op is None:
            op = find_operator(name)
        return op.redispatch(_BLANK_KEYS, *args, **kwargs)

    return cuda_composite
