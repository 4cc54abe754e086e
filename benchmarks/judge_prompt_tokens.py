"""How many prompt tokens of a group does a provider's prefix cache not have yet?

Grades one group (G = 6 rollouts, 30 steps of about 800 tokens) through the five phases and counts
what is sent, for the order that this package sends (system, task, rollout, then the job) against
the naive order (system, job, then the material), each under the same simulated prefix cache. Then
it shows what attribution would save by reading summaries, and what a reader could no longer find.

Tokens are words and punctuation marks; ratios are what counts. No network, no model.

Run: python benchmarks/judge_prompt_tokens.py [--rollouts 6] [--steps 30] [--tokens 800]
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict

from rubricnb.judge import Call, CallableJudge, JudgeConfig, grade, read_call
from rubricnb.trajectory import Group, Observation, Step, Task, ToolCall, Trajectory

BLOCK = 128  # tokens; providers cache prefixes in blocks of about this length
WORDS = [f"w{i:03d}" for i in range(900)]


def tokens(text: str) -> list[str]:
    """Words and punctuation marks."""
    return re.findall(r"\w+|[^\w\s]", text)


class PrefixCache:
    """Every prompt seen, as hashes of its prefixes in blocks."""

    def __init__(self) -> None:
        self.known: set[int] = set()

    def uncached(self, prompt: list[str]) -> int:
        """Tokens of a prompt that follow its longest known prefix; then it is known."""
        keys, key = [], 0
        for at in range(0, len(prompt) - BLOCK + 1, BLOCK):
            key = hash((key, tuple(prompt[at : at + BLOCK])))
            keys.append(key)
        hit = next((i for i, k in enumerate(keys) if k not in self.known), len(keys))
        self.known.update(keys)
        return len(prompt) - hit * BLOCK


def group(n: int, steps: int, length: int, seed: int) -> tuple[Group, list[list[str]]]:
    """A group of long rollouts; each step's result hides one fact, whose name is returned."""
    rng, task = random.Random(seed), Task("t", "Find and mend all faults.", "You act with tools.")
    rollouts, facts = [], []
    for g in range(n):
        rows, own = [], []
        for s in range(steps):
            words = rng.choices(WORDS, k=length * 7 // 8)
            own.append(f"fact{g}x{s}")
            words[rng.randrange(len(words))] = own[-1]
            act = " ".join(rng.choices(WORDS, k=length // 8))
            call = ToolCall("look", json.dumps({"at": s}), str(s))
            rows.append(Step(act, (call,), (Observation(" ".join(words), call_id=str(s)),)))
        rollouts.append(Trajectory(f"r{g}", task, tuple(rows)))
        facts.append(own)
    return Group(task, tuple(rollouts)), facts


def answer(call: Call) -> str:
    """Replies of the usual length, the same for every order of the prompt."""
    if call.phase in ("scoring", "attribution"):
        rows = [
            {"id": c["id"], "reason": "It says so there.", "steps": [3], "verdict": "fail"}
            for c in read_call(call).items
        ]
        return json.dumps({"verdicts": rows})
    n = {"task_rubric": 8, "rollout_rubric": 4, "union": 12}[call.phase]
    rows = [{"title": f"Title {i} of it", "instruction": f"Do {i}. " * 20} for i in range(n)]
    return json.dumps({"criteria": rows})


def sent(material: Group, view: str) -> list[Call]:
    """The calls that grading the group makes, phase by phase."""
    calls: list[Call] = []
    judge = CallableJudge(lambda call: (calls.append(call), answer(call))[1], "counter")
    config = JudgeConfig(nonce="benchmark", budget=None, attribution_view=view)
    grade([material], judge, config)
    return calls


def naive(call: Call) -> str:
    """The same call with the job before the material."""
    system, user = (m["content"] for m in call.messages)
    at = user.rindex("===== END")
    at = user.index("\n", at)
    return f"{system}\n{user[at:]}\n{user[:at]}"


def count(calls: list[Call], order) -> dict[str, tuple[int, int]]:
    """Per phase, tokens sent and tokens that the cache did not have."""
    cache, out = PrefixCache(), defaultdict(lambda: (0, 0))
    for call in calls:
        prompt = tokens(order(call))
        old = out[call.phase]
        out[call.phase] = (old[0] + len(prompt), old[1] + cache.uncached(prompt))
    return dict(out)


def ours(call: Call) -> str:
    """The call as it is sent."""
    return "\n".join(m["content"] for m in call.messages)


def measure(n: int = 6, steps: int = 30, length: int = 800, seed: int = 0) -> dict:
    """Return tokens by phase in three ways, the ratio of uncached tokens, and facts still shown."""
    material, facts = group(n, steps, length, seed)
    full, summary = sent(material, "full"), sent(material, "summary")
    table = {
        "naive order": count(full, naive),
        "shared prefix first": count(full, ours),
        "shared prefix, attribution by summary": count(summary, ours),
    }
    totals = {k: sum(u for _, u in v.values()) for k, v in table.items()}
    by_rollout = [c for c in summary if c.phase == "attribution"]
    shown = sum(f in ours(c) for c in by_rollout for f in facts[int(c.key["trajectory_id"][1:])])
    return {
        "phases": table,
        "uncached": totals,
        "ratio": totals["shared prefix first"] / totals["naive order"],
        "facts_shown_by_summary": shown / sum(map(len, facts)),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("rollouts", 6), ("steps", 30), ("tokens", 800)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    out = measure(a.rollouts, a.steps, a.tokens)
    print(f"G = {a.rollouts}, {a.steps} steps of about {a.tokens} tokens; sent / not cached")
    for way, phases in out["phases"].items():
        print(f"\n{way}")
        for phase, (all_, uncached) in phases.items():
            print(f"  {phase:16}{all_:>10,}{uncached:>10,}")
        print(f"  {'total':16}{sum(s for s, _ in phases.values()):>10,}{out['uncached'][way]:>10,}")
    print(f"\nnot cached, ours / naive: {out['ratio']:.3f} (want <= 0.55)")
    kept = out["facts_shown_by_summary"]
    print(f"facts in results that a summary still shows: {kept:.1%} (the full rollout: 100%)")
    print("Attribution also gets each verdict's reason and quotation, so this bounds the loss.")


if __name__ == "__main__":
    main()
