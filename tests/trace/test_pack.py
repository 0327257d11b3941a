import gzip

import pytest

from cudagraph_doctor.errors import OutputError, TraceError
from cudagraph_doctor.testing import TraceBuilder, cuda_error
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.pack import pack
from cudagraph_doctor.trace.redact import redacted

SCRIPT = "secret_scale = 0.125\nx.item()\n"


def failing(**header):
    trace = TraceBuilder(source=SCRIPT, **header)
    with trace.capture(line=1) as capture:
        capture.op("aten::_local_scalar_dense", line=2, raises=cuda_error(900), values=(("1", "0.125"),))
    trace.seal(1)
    return trace


def comparable(report):
    return (
        [(c.status, c.replays, c.nodes) for c in report.captures],
        [(f.rule.id, f.location and f.location.line, f.confidence, f.count) for f in report.findings],
        [(x.what, x.incomplete) for x in report.limits if "damaged" in x.what or "torn" in x.what],
        report.exit,
    )


def test_a_pack_of_a_folder_gives_the_report_of_the_folder(tmp_path, diagnosed):
    run = tmp_path / "run"
    run.mkdir()
    failing(pid=1).write(run / "n-1-1-a.jsonl")
    trace = failing(pid=2).encode().splitlines(keepends=True)
    trace.insert(4, b'{"torn\n')
    (run / "n-2-1-b.jsonl").write_bytes(b"".join(trace))
    packed = pack(run, tmp_path / "report.jsonl.gz")
    assert sorted(p.pid for p in diagnosed(packed).processes) == [1, 2]
    assert comparable(diagnosed(packed))[:2] == comparable(diagnosed(run))[:2]
    assert any("damaged" in limit.what for limit in diagnosed(packed).limits)


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    failing().write(tmp_path / "t.jsonl")
    one = pack(tmp_path / "t.jsonl", tmp_path / "one")
    two = pack(tmp_path / "t.jsonl", tmp_path / "two.jsonl.gz")
    assert one.name == "one.jsonl.gz"
    assert one.read_bytes() == two.read_bytes()


def test_no_source_leaves_the_text_out_and_the_findings_in(tmp_path, diagnosed):
    failing().write(tmp_path / "t.jsonl")
    packed = pack(tmp_path / "t.jsonl", tmp_path / "p.jsonl.gz", source=False)
    report = diagnosed(packed)
    assert report.captures[0].location.line == 1
    assert report.captures[0].location.code is None
    assert diagnosed(tmp_path / "t.jsonl").captures[0].location.code == "secret_scale = 0.125"


def test_redact_leaves_no_host_argument_environment_value_or_folder(tmp_path, diagnosed):
    trace = failing(
        host="secret-host",
        argv=("/home/secret-user/decode.py", "--secret-token"),
        env={"CUDA_X": "secret-env"},
        boot="secret-boot",
    )
    trace.call("cuModuleLoad", code=1, raises="OSError: cannot open '/home/secret-user/kernels/a.cubin'")
    trace.add(events.Process, child=3, how="spawn", argv=("/opt/secret-user/x", "y"))
    trace.write(tmp_path / "t.jsonl")
    packed = pack(tmp_path / "t.jsonl", tmp_path / "p.jsonl.gz", redact=True)
    content = gzip.decompress(packed.read_bytes()).decode()
    assert "secret" not in content
    assert "a.cubin" in content
    assert "decode.py" in content
    assert comparable(diagnosed(packed)) == comparable(diagnosed(tmp_path / "t.jsonl"))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("abs:/home/ann/x.py", "abs:…/x.py"),
        ("cannot open '/home/ann/k.so': denied", "cannot open '…/k.so': denied"),
        (r"C:\Users\ann\x.py", "…/x.py"),
        ("site:torch/nn/modules.py", "site:torch/nn/modules.py"),
        ("a / b and 3/4", "a / b and 3/4"),
        ("see https://pytorch.org/docs/x", "see https://pytorch.org/docs/x"),
    ],
)
def test_redact_takes_folders_of_absolute_paths_only(text, clean):
    assert redacted({"k": "log", "q": 1, "t": 1, "message": text})["message"] == clean


def test_redact_keeps_nothing_of_kinds_it_does_not_know():
    assert redacted({"k": "later", "q": 1, "t": 2, "name": "secret"}) == {"k": "later", "q": 1, "t": 2}


def test_a_pack_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path):
    failing().write(tmp_path / "t.jsonl")
    with pytest.raises(OutputError, match="cannot write"):
        pack(tmp_path / "t.jsonl", tmp_path / "missing" / "p.jsonl.gz")
    (tmp_path / "bad.jsonl").write_bytes(b"no trace")
    with pytest.raises(TraceError, match="is not a trace"):
        pack(tmp_path / "bad.jsonl", tmp_path / "p.jsonl.gz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.jsonl", "t.jsonl"]
