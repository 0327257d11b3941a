from __future__ import annotations

import pytest

from cudagraph_doctor.probe.cuda_codes import code_in, message_of, raised


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CUDA error: operation not permitted when stream is capturing\nSearch for ...", 900),
        ("CUDA error: operation failed due to a previous error during capture", 901),
        ("CUDA error: operation would make the legacy stream depend on a capturing blocking stream", 906),
        ("cudaErrorStreamCaptureUnsupported (900)", 900),
        ("cuModuleUnload: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 901),
        ("CUDA error: attempt to terminate a thread-local capture sequence from another thread", 908),
        ("Cannot copy between CPU and CUDA tensors during CUDA graph capture", 0),
    ],
)
def test_codes_in_texts(text, code):
    assert code_in(text) == code


class Tensor:
    def __repr__(self):
        pytest.fail("formatting a tensor waits for the GPU")

    __str__ = __repr__


class ShownError(RuntimeError):
    def __str__(self):
        pytest.fail("code of the target")
        return ""


def test_reading_a_message_runs_no_code_of_the_target():
    assert message_of(RuntimeError("bad", Tensor())).startswith("bad <")
    assert message_of(ShownError("bad")) == "bad"


def test_torchs_own_attribute_comes_first():
    error = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    error.error_code = 900
    assert raised(error)["code"] == 900
    assert "code" not in raised(ValueError("nothing"))
