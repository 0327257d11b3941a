"""One run from options to result, in this process."""

from __future__ import annotations

import sys
import threading

import pytest

from cudagraph_doctor import launch
from cudagraph_doctor.errors import TargetError
from cudagraph_doctor.launch import device, environment_variables, interpreter


def options(folder, text: str = "raise SystemExit(4)\n", **more) -> launch.LaunchOptions:
    script = folder / "target.py"
    script.write_text(text)
    whole = {"python": sys.executable, "need_torch": False, "trace": str(folder / "trace"), **more}
    return launch.LaunchOptions(kind="script", target=str(script), **whole)


def test_first_line_comes_before_the_target(tmp_path, capfd) -> None:
    said = []

    def say(line: str) -> None:
        said.append((line, capfd.readouterr().out))

    result = launch.run(options(tmp_path, "print('from the target')\n"), say)
    assert said == [(result.first_line, "")]
    assert sys.executable in result.first_line
    assert capfd.readouterr().out == "from the target\n"


def test_run_in_another_thread(tmp_path) -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(launch.run(options(tmp_path), lambda line: None)))
    thread.start()
    thread.join(30)
    assert results[0].end.returncode == 4


def test_signal_handlers_are_as_before(tmp_path) -> None:
    import signal

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers], signal.pthread_sigmask(signal.SIG_BLOCK, ())
    launch.run(options(tmp_path), lambda line: None)
    assert ([signal.getsignal(number) for number in numbers], signal.pthread_sigmask(signal.SIG_BLOCK, ())) == before


def test_no_device_is_said_before_anything_runs(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setattr(device, "see_gpus", lambda: device.Gpus((), driver=False))
    monkeypatch.setattr(interpreter, "choose", lambda *a, **k: FAKE)
    with pytest.raises(TargetError, match="no NVIDIA GPU"):
        launch.run(options(tmp_path, "print('ran')\n", need_torch=True, device="cuda"), lambda line: None)
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "trace").exists()


FAKE = interpreter.Interpreter(sys.executable, (3, 11, 1), torch="2.11.0", cuda="13.0")


def test_target_without_recorder_is_told(tmp_path, monkeypatch) -> None:
    """A target whose interpreter never reaches the door: it has run, and there is nothing to check."""
    monkeypatch.setattr(environment_variables, "DOOR", "/no/such/door")
    with pytest.raises(TargetError, match="left no trace") as caught:
        launch.run(options(tmp_path), lambda line: None)
    assert "cudagraph_doctor.auto" in (caught.value.hint or "")
