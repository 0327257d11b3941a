"""Run in a child process: records with the C probe against the stubs, as a hook of torch would drive it.

python target.py CONFIG_JSON LIBCUPTI LIBCUDA SCENARIO
"""

import ctypes
import json
import sys
import threading
from _thread import get_native_id

config_text, cupti_path, cuda_path, scenario = sys.argv[1:5]

from cudagraph_doctor.probe import bootstrap  # noqa: E402
from cudagraph_doctor.probe.arm import Window, windows_of  # noqa: E402
from cudagraph_doctor.probe.config import Config  # noqa: E402
from cudagraph_doctor.probe.driver import Driver  # noqa: E402
from cudagraph_doctor.probe.hooks.native import native_probe  # noqa: E402

cupti = ctypes.CDLL(cupti_path, mode=ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(cuda_path, mode=ctypes.RTLD_GLOBAL)
P = ctypes.c_void_p
cuda.cuLaunchKernel.argtypes = [P, *[ctypes.c_uint] * 7, P, P, P]
cuda.cuMemcpyHtoDAsync_v2.argtypes = [ctypes.c_uint64, P, ctypes.c_size_t, P]
for name in ("cuStreamEndCapture", "cuStreamSynchronize", "cuStreamDestroy_v2", "cuModuleUnload", "cuEventQuery"):
    getattr(cuda, name).argtypes = [P] if name != "cuStreamEndCapture" else [P, P]
cuda.cuStreamBeginCapture_v2.argtypes = [P, ctypes.c_int]
cuda.cuMemFree_v2.argtypes = [ctypes.c_uint64]
cuda.cuGraphLaunch.argtypes = [P, P]

recorder = bootstrap.start(Config(json.loads(config_text), "run"))
recorder._begin_hooks()  # what the import of torch would do
context = recorder.context
context.driver = Driver(cuda_path)
windows = windows_of(context)


def stream():
    handle = P()
    cuda.cuStreamCreate(ctypes.byref(handle), 1)
    return handle.value


def launch(on):
    return cuda.cuLaunchKernel(0x99, 4, 2, 1, 128, 1, 1, 1024, on, None, None)


def allocate(size=256):
    pointer = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))


class Capture:
    """What hooks/graph.py does around torch's calls."""

    def __init__(self, handle, mode="global"):
        self.handle = handle
        self.mode = mode

    def __enter__(self):
        windows.prepare()
        number = context.ids.next("capture")
        self.window = Window(number, self.handle, 1, 0, self.mode, 1)
        q = context.write("capture", id=number, stream=1, mode=self.mode, stack=context.stack())
        windows.beginning(self.window)
        code = cuda.cuStreamBeginCapture_v2(self.handle, ("global", "thread_local", "relaxed").index(self.mode))
        context.write("outcome", of=q, code=code)
        windows.enter(self.window)
        return self

    def __exit__(self, *_):
        graph = P()
        q = context.write("capture-end", cap=self.window.id)
        windows.leave(self.window)
        self.code = cuda.cuStreamEndCapture(self.handle, ctypes.byref(graph))
        self.graph = graph.value
        windows.done(self.window, context.write("outcome", of=q, code=self.code))


def healthy():
    origin = stream()
    allocate(111)  # before the first sign: nobody watches
    with Capture(origin) as capture:
        launch(origin)
        cuda.cuMemcpyHtoDAsync_v2(0x5000, 0x6000, 64, origin)
    executable = P()
    cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), P(capture.graph), ctypes.c_ulonglong(0))
    for _ in range(10):
        cuda.cuGraphLaunch(executable, origin)
    launch(origin)  # outside: not watched


def broken():
    origin, other = stream(), stream()
    with Capture(origin):
        launch(origin)
        launch(other)  # not captured
        allocate()  # refused
        launch(origin)  # 901


def routine():
    """A hundred launches into one capture, then into it and into another one by turns, then a broken one."""
    origin, second = stream(), stream()
    questions = ctypes.c_int.in_dll(cuda, "stub_questions")
    with Capture(origin, "relaxed"):
        launch(origin)
        before = questions.value
        for _ in range(100):
            launch(origin)
        print(questions.value - before)
        with Capture(second, "relaxed"):
            for _ in range(3):
                launch(second)
                launch(origin)
    with Capture(origin):
        launch(origin)
        launch(origin)
        allocate()  # refused
        launch(origin)  # 901


def modules():
    module, function = P(), P()
    with Capture(stream()):
        cuda.cuModuleLoadData(ctypes.byref(module), b"")
        cuda.cuModuleGetFunction(ctypes.byref(function), module, b"scale_rows")
    cuda.cuModuleUnload(module)


def waits():
    origin = stream()
    with Capture(origin, "relaxed"):
        cuda.cuStreamSynchronize(origin)
    cuda.cuStreamSynchronize(origin)


def operator():
    origin = stream()
    with Capture(origin):
        context.operator_runs(77, 5)
        launch(origin)  # as it should be: the operator's stack stands for its own
        launch(stream())  # beside the capture: its own stack
        context.operator_runs(0, 0)
        launch(origin)


def other_thread():
    origin = stream()
    with Capture(origin):
        worker = threading.Thread(target=allocate, name="pin-memory")
        worker.start()
        worker.join()


def native():
    with Capture(stream()):
        pass
    origin, graph = stream(), P()
    cuda.cuStreamBeginCapture_v2(origin, 2)  # nobody announced it
    launch(origin)
    cuda.cuStreamEndCapture(origin, ctypes.byref(graph))


def handed_over():
    origin = stream()
    with Capture(origin):
        launch(origin)
        native_probe(context).release("torch.profiler")
        launch(origin)
    with Capture(origin):
        launch(origin)


def forked():
    import os

    with Capture(stream()):
        child = os.fork()
        if child == 0:
            allocate(4242)
            os._exit(0)
        os.waitpid(child, 0)


def foreign():
    taken = P()
    cupti.cuptiSubscribe(ctypes.byref(taken), P(1), None)
    with Capture(stream()):
        pass


def blocked():
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))
    origin = stream()
    with Capture(origin):
        launch(origin)


def closed():
    import os

    origin = stream()
    with Capture(origin):
        launch(origin)
        for fd in range(3, 1024):
            try:
                os.close(fd)
            except OSError:
                continue
        mine = [os.open("/dev/null", os.O_WRONLY) for _ in range(4)]
        launch(origin)
        del mine


def crowd():
    """Eight threads, each with a function of its own on its stack, while others fork and collect garbage."""
    import gc
    import os
    import time

    end = time.monotonic() + 2
    source = "def worker_{0}(work, end, now):\n    while now() < end:\n        work()\n"
    functions = {}
    exec("".join(source.format(i) for i in range(8)), functions)

    def work():
        origin = stream()
        graph = P()
        cuda.cuStreamBeginCapture_v2(origin, 1)
        for _ in range(10):
            launch(origin)
        cuda.cuStreamEndCapture(origin, ctypes.byref(graph))
        cuda.cuStreamDestroy_v2(origin)
        pointer, module = ctypes.c_uint64(), P()
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(64))
        cuda.cuMemFree_v2(pointer.value)
        cuda.cuModuleLoadData(ctypes.byref(module), b"")
        cuda.cuModuleUnload(module)

    threads = []
    for i in range(8):
        worker = threading.Thread(target=functions[f"worker_{i}"], args=(work, end, time.monotonic), name=f"worker_{i}")
        worker.start()
        threads.append(worker)
        print(worker.native_id)
    with Capture(stream(), "thread_local"):  # the probe is armed in the midst of their calls
        pass
    while time.monotonic() < end:
        gc.collect()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        time.sleep(0.1)
    for worker in threads:
        worker.join()


print(get_native_id())
globals()[scenario]()
