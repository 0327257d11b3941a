"""Every operator of PyTorch's operator database on the simulated device, compared with the CPU.

    python tests/sim/operator_sweep.py forward|backward [--json FILE] [--only NAME] [--every N --offset K]

One forked process an operator, so that a crash costs one operator. Prints a line for each that differs and a summary;
exit status 1 below the required share. The gaps that are known, with their reasons, are in `operator_gaps.toml`.
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
SAMPLES = 6
SECONDS = 60
# Their results are random, or whatever memory held: only device, type and shape are compared.
RANDOM = (
    "rand", "dropout", "bernoulli", "multinomial", "normal", "cauchy", "exponential", "geometric", "uniform", "empty",
    "poisson", "rrelu", "fractional", "log_normal", "svd_lowrank", "pca_lowrank",
)  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("mode", choices=["forward", "backward"])
    options.add_argument("--json")
    options.add_argument("--only", default="")
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--offset", type=int, default=0)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # Before the device is made: the database skips or changes entries where it sees CUDA.
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from cudagraph_doctor.sim import install

    torch.set_num_threads(1)
    install()
    torch.cuda.synchronize()
    results: dict[str, str] = {}
    chosen = [op for op in op_db if torch.float32 in op.dtypes and given.only in op.name]
    for op in chosen[given.offset :: given.every]:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        results[name] = in_child(op, backward=given.mode == "backward")
        if results[name] != "equal":
            print(f"{name}: {results[name]}", flush=True)
    equal = sum(result == "equal" for result in results.values())
    print(f"{equal} of {len(results)} operators equal to the CPU ({given.mode}, torch {torch.__version__})")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1, sort_keys=True)
    return 0 if equal >= REQUIRED * len(results) else 1


def in_child(op: Any, *, backward: bool) -> str:
    """Compare one operator in a forked process: `equal`, or what was different."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        import torch

        signal.alarm(SECONDS)
        torch.set_num_threads(1)  # makes the child's own thread pool: the engine's threads would race for it
        try:
            result = compare(op, backward=backward)
        except BaseException as error:
            text = str(error).strip().partition("\n")[0][:160]
            result = f"{type(error).__name__}: {text}"
        os.write(write, result.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        result = pipe.read()
    _, status = os.waitpid(child, 0)
    return result or f"died with status {status}"


def compare(op: Any, *, backward: bool) -> str:
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

    grad = backward and op.supports_autograd
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=grad), SAMPLES):
        arguments = ((sample.input, *sample.args), sample.kwargs)
        torch.manual_seed(0)
        try:
            expected = op(*arguments[0], **arguments[1])
        except Exception:
            continue
        mine = tree_map(on_device, arguments)
        torch.manual_seed(0)
        got = op(*mine[0], **mine[1])
        if any(not tensor.is_cuda for tensor in tensors(got)) and op.name != "tensor_split":
            return "a result is not on the device"
        close(tensors(got), tensors(expected), 1e-4)
        outputs, wanted = tensors(got, grad=True), tensors(expected, grad=True)
        inputs, theirs = tensors(mine, grad=True), tensors(arguments, grad=True)
        if grad and wanted and theirs:
            ours = torch.autograd.grad([t.abs().sum() for t in outputs], inputs, allow_unused=True)
            cpu = torch.autograd.grad([t.abs().sum() for t in wanted], theirs, allow_unused=True)
            close([t for t in ours if t is not None], [t for t in cpu if t is not None], 1e-3)
    return "equal"


def known_gaps() -> dict[str, str]:
    """Operators that differ, with the reason."""
    with open(os.path.join(os.path.dirname(__file__), "operator_gaps.toml"), "rb") as file:
        return dict(tomllib.load(file))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
