"""Texts of torch 2.11 to 2.14, as measured or as they stand in its sources."""

import pytest

from cudagraph_doctor.checkers.invalidation import texts


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned.", "copy"),
        ("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok ...)", "CGD112"),
        ("Capture must end on the same stream it began on.", "CGD111"),
        ("Cannot prepare for replay during capturing stage. during CUDA graph capture.", "CGD108"),
        ("Cannot register the state during capturing stage. during CUDA graph capture.", "CGD108"),
        ("During CUDA graph capture, autograd node 'torch::autograd::AccumulateGrad' ...", "CGD114"),
        ("FIND was unable to find an engine to execute this computation", "CGD303"),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "CGD115"),
        ("cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`", "CGD115"),
        (
            "Attempting CUDA graph capture of step() for an instance of Adam but param_groups' capturable is False.",
            "CGD118",
        ),
        ("CTCLoss cannot be graph captured with CPU length tensors.", "CGD118"),
        ("Attempt to increase offset for a CUDA generator not in capture mode.", "rng"),
        ("Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture.", "rng"),
    ],
)
def test_refusals(message, rule):
    found = texts.rule_of(message)
    assert found is not None
    assert found[0] == rule


@pytest.mark.parametrize("message", ["no such request", "CUDA out of memory.", "shape mismatch: [4] and [8]", ""])
def test_other_errors_are_nobodys(message):
    assert texts.rule_of(message) is None
    assert not texts.is_consequence(message)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: operation failed due to a previous error during capture",
        "Called CUDAGraph::replay without a preceding successful capture.",
        "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm( ... )`",
        "Offset increment outside graph capture encountered unexpectedly.",
        "cudaErrorStreamCaptureInvalidated (901)",
    ],
)
def test_consequences(message):
    assert texts.is_consequence(message)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("CUDA error: operation not permitted when stream is capturing\nSearch for ...", 900),
        ("cudaErrorStreamCaptureMerge (902)", 902),
        ("CUDA_ERROR_CAPTURED_EVENT (907)", 907),
        ("cudaErrorInvalidValue (1)", 0),
    ],
)
def test_codes(message, code):
    assert texts.code_of(message) == code
