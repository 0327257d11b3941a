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


class Region:
    """A script with one or more captures of the block that begins at `with torch.cuda.graph`."""

    def __init__(self, script, begin):
        self.script, self.trace, self.begin = script, script.trace, begin
        self.trace.capability("region")
        self.exec = 0

    def frame(self, part, function="<module>", expression=None):
        """The position of an expression on the line with `part`."""
        line = self.script.line(part)
        raw = self.script.text.split("\n")[line - 1]
        column = len(raw[: raw.index(expression or part)].encode())
        return (
            self.trace.source(self.trace.path),
            line,
            function,
            line,
            column,
            column + len((expression or part).encode()),
        )

    def stack(self, *frames):
        """A stack, innermost frame first; each is the arguments of `frame`."""
        number = self.trace.next_id("stack")
        self.trace.add(events.Stack, id=number, frames=tuple(self.frame(*f) for f in frames))
        return number

    def capture(self, *ops):
        """Captures operators, each (name, frames, fields of the record)."""
        with self.trace.capture(line=self.script.line(self.begin)) as capture:
            for name, frames, *fields in ops:
                capture.op(name, stack=self.stack(*frames), **(fields[0] if fields else {}))
            capture.end(nodes=len(ops))
        self.exec = capture.exec
        return capture

    def slot(self, capture, path, value="", *, reads=(), writes=(), kind="global", **fields):
        """A slot that the region read at these places."""
        number = self.trace.next_id("slot")
        fields.setdefault("type", type(eval(value)).__name__ if value and not value.startswith("len") else "object")
        fields.setdefault("stack", self.stack(reads[0]) if reads else 0)
        self.trace.add(
            events.Slot,
            id=number,
            cap=capture.id,
            path=path,
            kind=kind,
            value=value,
            read=bool(reads),
            written=bool(writes),
            reads=tuple(self.frame(*f) for f in reads),
            writes=tuple(self.frame(*f) for f in writes),
            **fields,
        )
        return number

    def change(self, slot, value="", *, replay=1, at=None, **fields):
        """Before a replay the slot holds something else; the store is on the line with `at`."""
        stack = self.trace.stack(self.script.line(at)) if at is not None else 0
        self.trace.add(events.SlotChange, slot=slot, value=value, replay=replay, exec=self.exec, stack=stack, **fields)

    def replays(self, capture, count=2, at="g.replay()"):
        return self.trace.replay(capture.graph, line=self.script.line(at), count=count, exec=capture.exec)


@pytest.fixture
def region(script):
    """`region(TEXT)`: a script with a region."""
    return lambda text, begin="with torch.cuda.graph", **options: Region(script(text, **options), begin)
