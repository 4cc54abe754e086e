"""Hostile and hopeless files: bombs, links, huge lines, deep nesting; and the command itself."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rubricnb import importers
from rubricnb.errors import FormatError
from rubricnb.files import read_jsonl
from rubricnb.importers import archive, source

ROW = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


def test_a_zip_bomb_stops_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MEMBER", 1 << 20)
    path = tmp_path / "bomb.eval"
    sample = {"id": 1, "epoch": 1, "messages": ROW["messages"]}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("header.json", "{}")
        z.writestr("samples/1_epoch_1.json", "[" + " " * (64 << 20))
        z.writestr("samples/2_epoch_1.json", json.dumps(sample))
    assert path.stat().st_size < 1 << 20
    reading = importers.read(path)
    assert len(list(reading)) == 1
    ((reason, dropped),) = reading.report.dropped.items()
    assert "want at most 1 MB in a member" in reason
    assert dropped.places == ["samples/1_epoch_1.json"]


def test_all_members_together_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "TOTAL", 1000)
    path = tmp_path / "many.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for i in range(20):
            z.writestr(f"samples/{i}.json", json.dumps({"id": i, "epoch": 1, **ROW}))
    reading = importers.read(path)
    assert 3 < len(list(reading)) < 15
    assert reading.report.dropped


def test_a_line_that_is_too_long_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "RECORD", 2000)
    path = tmp_path / "log.jsonl"
    big = {**ROW, "note": "x" * 9000}
    path.write_text("\n".join(json.dumps(r) for r in (ROW, big, ROW)) + "\n")
    reading = importers.read(path)
    assert len(list(reading)) == 2
    ((reason, dropped),) = reading.report.dropped.items()
    assert "more than 2000 characters" in reason
    assert dropped.places == ["line 2"]


def test_a_document_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "DOCUMENT", 1000)
    path = tmp_path / "x.traj.json"
    turn = {"role": "assistant", "content": "mswea_bash_command <returncode>" + "x" * 2000}
    path.write_text(json.dumps({"info": {"mini_version": "2"}, "messages": [turn]}))
    with pytest.raises(FormatError, match="want one JSON document of at most"):
        list(importers.read(path))


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_is_no_crash(tmp_path, depth):
    path = tmp_path / "deep.jsonl"
    deep = '{"messages": [{"role": "assistant", "content": ' + "[" * depth + "]" * depth + "}]}"
    path.write_text(json.dumps(ROW) + "\n" + deep + "\n" + json.dumps(ROW) + "\n")
    reading = importers.read(path)
    got = list(reading)
    assert len(got) >= 2
    assert reading.report.balanced


def test_links_out_of_a_folder_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonl").write_text(json.dumps(ROW) + "\n")
    (outside / "result.json").write_text('{"verifier_result": {"rewards": {"reward": 1}}}')
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "own.jsonl").write_text(json.dumps(ROW) + "\n")
    os.symlink(outside / "secret.jsonl", inside / "link.jsonl")
    os.symlink(outside, inside / "folder")
    assert len(list(importers.read(inside))) == 1
    steps = [{"source": "agent", "message": "a"}]
    (inside / "trajectory.json").write_text(
        json.dumps({"schema_version": "ATIF-v1", "steps": steps})
    )
    os.symlink(outside / "result.json", inside / "result.json")
    (t,) = importers.read(inside / "trajectory.json")
    assert t.outcome is None


def test_a_path_inside_a_log_is_never_opened(tmp_path):
    content = [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
               {"type": "text", "text": "see file:///etc/passwd"}]  # fmt: skip
    path = tmp_path / "log.jsonl"
    row = {"messages": [{"role": "user", "content": content}, {"role": "assistant"}]}
    path.write_text(json.dumps(row) + "\n")
    (t,) = importers.read(path)
    assert t.task.prompt == "[image] see file:///etc/passwd"


def test_a_format_by_name_is_checked(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    with pytest.raises(FormatError, match="want a format among"):
        importers.read(path, "nonsense")
    with pytest.raises(FormatError, match=r"log.jsonl, line 1.*in format tau-bench; got a run"):
        list(importers.read(path, "tau-bench"))
    with pytest.raises(FormatError, match="got nothing there"):
        importers.read(tmp_path / "absent")


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "rubricnb", "import", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        timeout=120,
    )


def test_the_command_writes_and_says_everything(tmp_path):
    log, out, report = tmp_path / "log.jsonl", tmp_path / "out.jsonl", tmp_path / "report.json"
    mail = {"messages": [*ROW["messages"], {"role": "user", "content": "ann@example.com X1"}]}
    log.write_text(json.dumps(mail) + "\n" + json.dumps(ROW)[:-9] + "\n")
    done = run(log, "-o", out, "--redact", "--pattern", "X[0-9]", "--report", report)
    assert done.returncode == 0, done.stderr
    (t,) = read_jsonl(out)
    assert t.steps[0].observations[0].text == "[email] [redacted]"
    assert "openai-chat (60% sure" in done.stdout
    assert (
        "4 = 1 in tasks + 1 steps + 1 observations + 0 joined to a step + 1 dropped" in done.stdout
    )
    assert "(line 2)" in done.stdout
    assert json.loads(report.read_text())["redacted"] == {"email": 1, "pattern 1": 1}


def test_the_command_refuses_in_one_line(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("no log at all\n")
    done = run(log, "-o", tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith("rubricnb: ")
    assert "line 1: want one of the formats" in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["log.txt"]


def test_our_own_lines_can_be_read_again(tmp_path):
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text(json.dumps(ROW) + "\n")
    assert run(log, "-o", out).returncode == 0
    reading = importers.read(out)
    assert [t.steps[0].text for t in reading] == ["a"]
    assert (reading.report.format, reading.report.balanced) == ("rubricnb", True)
