"""What the recorder was asked to do, and how it gets to know: two environment variables, so that children follow."""

from __future__ import annotations

import os

from cudagraph_doctor._wire import ENV_CONFIG, ENV_TRACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_FOLDER = "cudagraph-doctor-trace"


class Config:
    """The recorder's configuration. Unknown keys are kept: hooks read their own ones with `get`."""

    __slots__ = ("_values", "how")

    def __init__(self, values: dict[str, Any], how: str) -> None:
        self._values = values
        self.how = how
        """How recording began: `run`, `env` or `auto`."""

    @property
    def trace(self) -> str:
        """Absolute path of the run's folder."""
        return str(self._values["trace"])

    @property
    def run(self) -> str:
        """Id of the run, the same in all its processes."""
        return str(self._values.get("run", ""))

    @property
    def launcher(self) -> int:
        """Process id of the launcher that waits for the target, 0 without one."""
        return int(self._values.get("launcher", 0))

    @property
    def device(self) -> str:
        """`cuda` or `sim`."""
        return str(self._values.get("device", "cuda"))

    @property
    def sim_devices(self) -> int:
        """Number of simulated devices."""
        return int(self._values.get("sim_devices", 1))

    @property
    def target(self) -> str:
        """Absolute path of the folder of the target's script, "" where there is none."""
        return str(self._values.get("target", ""))

    @property
    def cwd(self) -> str:
        """Working directory in which the run began."""
        return str(self._values.get("cwd", ""))

    @property
    def own(self) -> tuple[str, ...]:
        """Packages and paths that the user calls their own."""
        return tuple(self._values.get("own", ()))

    def get(self, key: str, default: Any = None) -> Any:
        """A value by its key."""
        return self._values.get(key, default)

    def told(self) -> dict[str, Any]:
        """The part that a trace may carry: nothing that names a folder of this machine."""
        paths = ("trace", "target", "cwd", "own", "launcher")
        return {key: value for key, value in self._values.items() if key not in paths}


def from_environment() -> Config | None:
    """The configuration of a launched run, else of `CUDAGRAPH_DOCTOR_TRACE=DIR`, else None.

    Raises:
        ValueError: `CUDAGRAPH_DOCTOR_CONFIG` holds something else than our JSON.
    """
    text = os.environ.get(ENV_CONFIG)
    if text:
        from json import loads

        values = loads(text)
        if not isinstance(values, dict) or not isinstance(values.get("trace"), str):
            raise ValueError(f"{ENV_CONFIG} is not a recorder's configuration")
        return Config(values, "run")
    folder = os.environ.get(ENV_TRACE)
    return _unlaunched(folder, "env") if folder else None


def automatic() -> Config:
    """The configuration of `import cudagraph_doctor.auto`."""
    return from_environment() or _unlaunched(DEFAULT_FOLDER, "auto")


def _unlaunched(folder: str, how: str) -> Config:
    """Records into `folder`, for a process that no launcher of ours started."""
    import sys

    folder = os.path.abspath(folder)
    if how == "env":
        os.environ[ENV_TRACE] = folder  # children may start in another directory
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    target = os.path.dirname(os.path.abspath(script)) if script and os.path.isfile(script) else ""
    run = os.environ.get("SLURM_JOB_ID") or os.environ.get("TORCHELASTIC_RUN_ID") or ""
    return Config({"trace": folder, "run": run, "target": target, "cwd": os.getcwd()}, how)
