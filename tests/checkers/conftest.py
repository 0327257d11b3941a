"""Scripts with marked lines, and stacks that point at an expression of one of them."""

import textwrap

import pytest

from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events


class Script:
    """A script's text and its trace. A line is named by something that stands in it."""

    def __init__(self, text, **options):
        self.text = textwrap.dedent(text).lstrip("\n")
        self.trace = TraceBuilder(source=self.text, **options)

    def line(self, part):
        found = [n for n, line in enumerate(self.text.split("\n"), 1) if part in line]
        assert len(found) == 1, f"{part!r} stands in lines {found}"
        return found[0]

    def at(self, part, function="<module>", *, expression=None, below=(), above=()):
        """A stack whose user frame is at the line with `part`, with the columns of the expression or of the part."""
        line = self.line(part)
        raw = self.text.split("\n")[line - 1]
        wanted = expression or part
        column = len(raw[: raw.index(wanted)].encode())
        frames = [(self.trace.source(path), number, name, None, None, None) for path, number, name in reversed(below)]
        user = (self.trace.source(self.trace.path), line, function, line, column, column + len(wanted.encode()))
        outer = [(self.trace.source(self.trace.path), self.line(p), f, None, None, None) for p, f in above]
        number = self.trace.next_id("stack")
        self.trace.add(events.Stack, id=number, frames=(*frames, user, *outer))
        return number


@pytest.fixture
def script():
    return Script


def cuda(at, ptr=0x1000, **fields):
    fields.setdefault("size", 256)
    return events.Tensor(at=at, ptr=hex(ptr), dev="cuda:0", **fields)


def cpu(at, ptr=0x9000, **fields):
    fields.setdefault("size", 256)
    return events.Tensor(at=at, ptr=hex(ptr), dev="cpu", **fields)


@pytest.fixture
def tensor():
    """Makers of tensor arguments: `tensor.cuda("0")`, `tensor.cpu("1", pinned=True)`."""

    class Makers:
        cuda = staticmethod(cuda)
        cpu = staticmethod(cpu)

    return Makers
