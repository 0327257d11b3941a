"""The dispatch mode itself. Its class is made at the first window: the recorder imports no torch."""

from __future__ import annotations

from cudagraph_doctor.probe.tracebacks import hide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_made: dict[int, Any] = {}


def mode_class(torch: Any) -> Any:
    """The class of our dispatch mode, for this torch."""
    found = _made.get(id(torch))
    if found is None:
        found = _made[id(torch)] = _make(torch)
    return found


def _make(torch: Any) -> Any:
    from sys import modules

    dispatch = modules["torch.utils._python_dispatch"]
    base = dispatch.TorchDispatchMode
    knows_internals = hasattr(base, "ignore_compile_internals")
    frames = _eval_frames(torch)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    stack_length = torch._C._len_torch_dispatch_stack
    without_dynamo = frames.set_eval_frame if frames is not None else _leave_alone

    class RecorderMode(base):  # type: ignore[misc, valid-type]
        """Tells `operators` of each operator, and hands it on."""

        supports_higher_order_operators = True

        def __init__(self, operators: Any) -> None:
            super().__init__()
            self.live = True
            self._before = operators.before
            self._after = operators.after
            self._facts = operators.known
            self._learn = operators.learn

        @classmethod
        def is_infra_mode(cls) -> bool:
            return not knows_internals

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # torch would wrap the method below so that Dynamo skips it, and import Dynamo, seconds of work, at the
            # first operator of a capture. Dynamo is kept away by `without_dynamo` and `_skip` instead.
            return False

        def on_top(self) -> bool:
            return dispatch._get_current_dispatch_mode() is self

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if kwargs is None:
                kwargs = {}
            facts = (self._facts.get(id(func)) or self._learn(func)) if self.live else None
            callback = without_dynamo(None)
            try:
                if facts is None:
                    return func(*args, **kwargs)
                if facts.composite and not types and not stack_length():
                    # Under inference_mode an operator that is made of others arrives whole. Its parts are what runs:
                    # let them come one by one, by the very kernel that the dispatcher would call. Not beside other
                    # modes, which would see the parts as well.
                    with self:
                        return func._op_dk(composite, *args, **kwargs)
                running = self._before(facts, args, kwargs)
                if running is None:
                    return func(*args, **kwargs)
                try:
                    results = facts.call(*args, **kwargs)
                except BaseException as error:
                    self._after(running, None, error)
                    raise
                self._after(running, results, None)
                return results
            except BaseException as error:
                hide(error)
                raise
            finally:
                without_dynamo(callback)

    raw = RecorderMode.__torch_dispatch__
    raw = getattr(raw, "__wrapped__", raw) if raw.__code__.co_name != "__torch_dispatch__" else raw
    setattr(RecorderMode, "__torch_dispatch__", raw)  # noqa: B010 - the class statement has put torch's wrapper there
    if frames is not None:
        _skip(frames, raw.__code__)
    if not hasattr(base, "supports_higher_order_operators"):
        _pass_higher_order_operators(torch, RecorderMode)
    return RecorderMode


def _eval_frames(torch: Any) -> Any:
    """The frame evaluator of torch in C: there without Dynamo's Python part. None where a torch lacks it."""
    dynamo = getattr(torch._C, "_dynamo", None)
    frames = getattr(dynamo, "eval_frame", None)
    return frames if hasattr(frames, "set_eval_frame") else None


def _skip(frames: Any, code: Any) -> None:
    """Never compile this code object (what `torch._dynamo.eval_frame.skip_code` does)."""
    if hasattr(frames, "skip_code"):  # before 2.7
        frames.skip_code(code)
    elif hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(action.SKIP, action.DEFAULT))


def _leave_alone(callback: Any) -> Any:
    return callback


def _pass_higher_order_operators(torch: Any, mode: Any) -> None:
    """Before 2.9 a higher-order operator refuses every mode that has no rule for it: the rule is to hand it on."""
    for operator in torch._ops._higher_order_ops.values():
        table = getattr(operator, "python_key_table", None)
        if table is not None and mode not in table:
            table[mode] = _handed_on(operator)


def _handed_on(operator: Any) -> Any:
    def rule(mode: Any, *args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    return rule
