"""Every operator of PyTorch's operator database on the simulated device: forward, backward and replayed from a graph,
compared with the CPU.

    python tests/sim/operator_sweep.py [--json FILE] [--only NAME] [--part I/N]

Runs in a forked worker; where an operator kills it, another worker goes on with the next one. Prints a line for each
that differs and a summary; exit status 1 below the required share. The gaps that are known, with their reasons, are in
`operator_gaps.toml`, from which docs/simulated-device.md has its list.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tomllib
import warnings
from typing import Any

REQUIRED = 0.98
SEED = 42
"""The seed that the database itself sets before some random operators."""
SAMPLES = 6
SECONDS = 60
"""For one operator."""
EQUAL = "equal"
REFUSED = "refused in a capture"
"""The operator makes the host wait, or copies from it: a GPU refuses that, too."""
MODES = ("forward", "backward", "replay")
# Their results are random, or whatever memory held: only device, type and shape are compared.
RANDOM = (
    "rand", "dropout", "bernoulli", "multinomial", "normal", "cauchy", "exponential", "geometric", "uniform", "empty",
    "poisson", "rrelu", "fractional", "log_normal", "svd_lowrank", "pca_lowrank",
)  # fmt: skip

Results = dict[str, dict[str, str]]
"""Operator to mode to `equal` or what was different."""


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--json")
    options.add_argument("--only", default="")
    options.add_argument("--part", default="1/1", help="I/N: every Nth operator, beginning with the Ith")
    given = options.parse_args()
    part, parts = map(int, given.part.split("/"))
    warnings.filterwarnings("ignore")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # Before the device is made: the database skips or changes entries where it sees CUDA.
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from cudagraph_doctor.sim import install

    torch.set_num_threads(1)
    install()
    chosen = [op for op in op_db if torch.float32 in op.dtypes and given.only in op.name]
    results = sweep(chosen[part - 1 :: parts])
    for mode in MODES:
        different = {name: result[mode] for name, result in results.items() if not fine(result[mode])}
        refused = sum(result[mode] == REFUSED for result in results.values())
        for name, result in different.items():
            print(f"{name} ({mode}): {result}")
        print(
            f"{len(results) - len(different)} of {len(results)} operators equal to the CPU, {mode}, "
            f"torch {torch.__version__}" + (f"; {refused} of them {REFUSED}" if refused else "")
        )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1, sort_keys=True)
    return 0 if min(share_equal(results, mode) for mode in MODES) >= REQUIRED else 1


def fine(outcome: str) -> bool:
    """Whether an operator does what it does on a GPU."""
    return outcome in (EQUAL, REFUSED)


def share_equal(results: Results, mode: str) -> float:
    """Share of the operators that are fine in that mode."""
    return sum(fine(result[mode]) for result in results.values()) / len(results)


def known_gaps() -> dict[str, str]:
    """Operators that differ, with the reason."""
    with open(os.path.join(os.path.dirname(__file__), "operator_gaps.toml"), "rb") as file:
        return dict(tomllib.load(file))


def sweep(operators: list[Any]) -> Results:
    """Compare these operators, whatever they do to the process that computes them."""
    results: Results = {}
    names = [op.name + (f".{op.variant_test_name}" if op.variant_test_name else "") for op in operators]
    while len(results) < len(operators):
        done = len(results)
        for name, outcome in zip(names[done:], _worker(operators[done:]), strict=False):
            results[name] = outcome
        if len(results) == done:
            msg = "two operators of one name, or a worker that says nothing"
            raise RuntimeError(msg)
    return results


def _worker(operators: list[Any]) -> list[dict[str, str]]:
    """Outcomes of a forked process, in order; the last one is that of the operator that killed it, if one did."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _work(operators, write)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        outcomes = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    if len(outcomes) < len(operators):
        outcomes.append(dict.fromkeys(MODES, f"killed by {signal.Signals(os.WTERMSIG(status)).name}"))
    return outcomes


def _work(operators: list[Any], write: int) -> None:
    import torch

    torch.set_num_threads(1)  # makes the process's own thread pool: the engine's threads would race for it
    for op in operators:
        signal.alarm(SECONDS)
        outcome = {}
        for mode in MODES:
            try:
                outcome[mode] = compare(op, mode)
            except BaseException as error:
                text = str(error).strip().partition("\n")[0][:160]
                outcome[mode] = f"{type(error).__name__}: {text}"
        os.write(write, json.dumps(outcome).encode() + b"\n")
    os._exit(0)


def replayed(op: Any, arguments: Any) -> Any:
    """Result of the operator when a graph of it is replayed; None if the capture is refused."""
    import torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph):
            result = op(*arguments[0], **arguments[1])
    except torch.AcceleratorError:
        return None
    except RuntimeError as error:
        if "capture" in str(error):
            return None
        raise
    finally:
        torch.cuda.set_stream(stream)
    torch.manual_seed(SEED)
    graph.replay()
    return result


def compare(op: Any, mode: str) -> str:
    """`equal`, or what was different. Raises what the operator raises, and AssertionError for other values."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    def on_device(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            twin = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")
            return twin.copy_(value.detach()).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device):
            return torch.device("cuda", 0)
        return "cuda" if isinstance(value, str) and value == "cpu" else value

    def tensors(value: Any, *, grad: bool = False) -> list[Any]:
        leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        return [leaf for leaf in leaves if leaf.requires_grad] if grad else leaves

    def close(ours: list[Any], theirs: list[Any], tolerance: float) -> None:
        if not any(word in op.name for word in RANDOM):
            torch.testing.assert_close(
                [t.detach().cpu() for t in ours], [t.detach() for t in theirs],
                rtol=1e-3, atol=tolerance, equal_nan=True, check_stride=False,
            )  # fmt: skip

    backward = mode == "backward"
    if backward and not op.supports_autograd:
        return EQUAL
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=backward), SAMPLES):
        arguments = ((sample.input, *sample.args), sample.kwargs)
        torch.manual_seed(SEED)
        try:
            expected = op(*arguments[0], **arguments[1])
        except Exception:
            continue
        mine = tree_map(on_device, arguments)
        torch.manual_seed(SEED)
        got = op(*mine[0], **mine[1])
        if mode == "replay":
            mine = tree_map(on_device, arguments)  # the first call may have written them
            got = replayed(op, mine)
            if got is None:
                return REFUSED
        if any(not tensor.is_cuda for tensor in tensors(got)) and op.name != "tensor_split":
            return "a result is not on the device"
        close(tensors(got), tensors(expected), 1e-4)
        outputs, wanted = tensors(got, grad=True), tensors(expected, grad=True)
        inputs, theirs = tensors(mine, grad=True), tensors(arguments, grad=True)
        if backward and wanted and theirs:
            ours = torch.autograd.grad([t.abs().sum() for t in outputs], inputs, allow_unused=True)
            cpu = torch.autograd.grad([t.abs().sum() for t in wanted], theirs, allow_unused=True)
            close([t for t in ours if t is not None], [t for t in cpu if t is not None], 1e-3)
    return EQUAL


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
