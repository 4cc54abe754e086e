"""Graded groups made by hand for tests of what is shown, with attacks planted in every text."""

from __future__ import annotations

import numpy as np

from rubricnb import (
    Criterion,
    FailedJudgement,
    GradedGroup,
    Group,
    Label,
    Rubric,
    Step,
    Task,
    ToolCall,
    Trajectory,
    Verdict,
)
from rubricnb.trajectory import Observation

# Each sets window.pwned when it runs.
ATTACKS = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=1">',
    "<svg/onload=window.pwned=1>",
    '<a href="javascript:window.pwned=1">press</a>',
    "'\"><iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "javascript:window.pwned=1",
    "<!--<script>window.pwned=1",
    "\u2028window.pwned=1\u2029",
    "<style>body{display:none}</style>",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "\ud800 alone",
    "$\\unicode{x41}$ and $2$",
)
EVIL = " ".join(ATTACKS)


def small() -> GradedGroup:
    """Two rollouts, three criteria, worked out by hand.

    Lengths 10 a step. c0: 1 passes at S1, 2 fails at S2. c1: 1 fails at S3, 2 fails at S1.
    c2: both pass, so that dropout leaves it out.
    R = (1 - 1) / 2 = 0 and -1; A = +0.7071, -0.7071 (ddof 1).
    Rollout 1: Q = 1, .5, 0; w = Q, so shares 2/3, 1/3, 0 of A N = A 30.
    """
    task = Task("t", "Do it.")

    def rollout(name: str, n: int) -> Trajectory:
        steps = tuple(
            Step(f"step {i}", (ToolCall("look", "{}"),), (Observation("seen"),), tokens=10)
            for i in range(1, n + 1)
        )
        return Trajectory(name, task, steps, outcome=1.0 if name == "a" else 0.0)

    rubric = Rubric(tuple(Criterion(f"c{k}", f"Criterion {k}") for k in range(3)), "t")
    P, F = Label.PASS, Label.FAIL
    rows = (
        (Verdict("c0", P, "good", (1,)), Verdict("c1", F, "bad", (3,)), Verdict("c2", P, "", (2,))),
        (Verdict("c0", F, "bad", (2,)), Verdict("c1", F, "bad", (1,)), Verdict("c2", P, "", (2,))),
    )
    return GradedGroup(Group(task, (rollout("a", 3), rollout("b", 2))), rubric, rows)


def evil() -> GradedGroup:
    """A group with attacks in every text that a log or a judge can hold."""
    task = Task(f"evil {EVIL}", f"prompt {EVIL}", f"system {EVIL}")
    step = Step(
        f"text {EVIL}",
        (ToolCall(f"tool{EVIL}", EVIL),),
        (Observation(EVIL, "tool", EVIL),),
        thinking=f"thinking {EVIL}",
        agent=EVIL,
        tokens=7,
    )
    labels = {EVIL: EVIL}
    members = tuple(
        Trajectory(f"r{i} {EVIL}", task, (step,) * 3, 1.0, EVIL, EVIL, labels, warnings=(EVIL,))
        for i in (1, 2)
    )
    rubric = Rubric((Criterion("c0", EVIL, EVIL, EVIL, EVIL, EVIL), Criterion("c1", f"b {EVIL}")))
    rows = (
        (
            Verdict("c0", Label.FAIL, EVIL, (2,), flags=(EVIL,)),
            FailedJudgement("c1", EVIL, (EVIL,)),
        ),
        (Verdict("c0", Label.PASS, EVIL, (1,)), Verdict("c1", Label.NOT_APPLICABLE, EVIL)),
    )
    return GradedGroup(Group(task, members), rubric, rows, (EVIL, ""))


def large(G: int = 64, S: int = 500, K: int = 24, seen: int = 400_000) -> GradedGroup:
    """A group at the size that figures must bear; one observation of ``seen`` characters."""
    rng = np.random.default_rng(0)
    task = Task("large", "A long task.")
    members, rows = [], []
    for g in range(G):
        steps = [Step(f"step {i}", (ToolCall("act", "{}"),), tokens=9) for i in range(S)]
        steps[5] = Step("big", (), (Observation("<x&y> " * (seen // 6)),), tokens=9)
        members.append(Trajectory(f"r{g}", task, tuple(steps)))
        row = []
        for k in range(K):
            cited = tuple(sorted({int(v) for v in rng.integers(1, S + 1, 5)}))
            label = Label.PASS if rng.random() < 0.5 else Label.FAIL
            row.append(Verdict(f"c{k}", label, "because " * 20, cited))
        rows.append(tuple(row))
    rubric = Rubric(tuple(Criterion(f"c{k}", f"Criterion {k}") for k in range(K)))
    return GradedGroup(Group(task, tuple(members)), rubric, tuple(rows))
