"""Run a script and write the graph of each capture as DOT: `python graph_dump.py FOLDER script.py`.

The driver's own dump is asked for (`CUDAGraph.enable_debug_mode`, `debug_dump`), so that the same question can be put
to a run with the recorder and to one without.
"""

import runpy
import sys
from pathlib import Path

import torch

folder, sys.argv = Path(sys.argv[1]), sys.argv[2:]
begin, end = torch.cuda.CUDAGraph.capture_begin, torch.cuda.CUDAGraph.capture_end
count = 0


def capture_begin(self, *args, **kwargs):
    self.enable_debug_mode()
    return begin(self, *args, **kwargs)


def capture_end(self):
    global count
    end(self)
    count += 1
    self.debug_dump(str(folder / f"{count:03d}.dot"))


torch.cuda.CUDAGraph.capture_begin = capture_begin
torch.cuda.CUDAGraph.capture_end = capture_end
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
