"""A judge that follows rules, for tests: it reads the prompt's text and nothing else.

A criterion's instruction is "want WORD": met where some result holds the word, cited at the first
step that shows it; else failed at the last step. "when X want WORD" does not apply where no result
holds X. The task's prompt lists words after "needs:"; a rollout rubric asks for "read back" where
the rollout never says it.
"""

import json

from rubricnb.judge import Call, CallableJudge, read_call
from rubricnb.trajectory import Group, Observation, Step, Task, ToolCall, Trajectory


def criterion(word, when=""):
    ask = f"when {when} want {word}" if when else f"want {word}"
    return {"title": f"shows {word}", "description": "", "instruction": ask, "evidence": "task"}


def verdict(item, steps, cite):
    words = item["instruction"].split()
    when = words[1] if words[0] == "when" else ""
    seen = {s.number: " ".join(o.text for o in s.observations) for s in steps}
    hits = [n for n, text in seen.items() if words[-1] in text.split()]
    if when and not any(when in text.split() for text in seen.values()):
        out = {"id": item["id"], "reason": f"{when} never came up", "evidence": "", "steps": []}
        label = "not_applicable"
    elif hits:
        quote = seen[hits[0]]
        out = {"id": item["id"], "reason": "shown", "evidence": quote, "steps": hits[:1]}
        label = "pass"
    else:
        last = steps[-1].number
        out = {"id": item["id"], "reason": "absent", "evidence": "", "steps": [last]}
        label = "fail"
    if not cite:
        out.pop("steps")
    return {**out, "verdict": label}


def answer(call: Call) -> dict:
    shown = read_call(call)
    if call.phase == "task_rubric":
        words = shown.prompt.split("needs:")[1].split()
        return {"criteria": [criterion(w) for w in words]}
    if call.phase == "rollout_rubric":
        said = " ".join(b.text for s in shown.rollouts[0] for b in s.blocks)
        return {"criteria": [] if "checked" in said.split() else [criterion("checked")]}
    if call.phase == "union":
        merged = {}
        for item in shown.items:
            merged.setdefault(item["instruction"], []).append(item)
        return {
            "criteria": [
                {
                    **{k: i[0].get(k, "") for k in ("title", "description", "instruction")},
                    "merges": [c["id"] for c in i],
                }
                for i in merged.values()
            ]
        }
    cite = call.phase == "attribution" or '"steps"' in call.messages[-1]["content"]
    return {"verdicts": [verdict(i, shown.rollouts[0], cite) for i in shown.items]}


def rule_judge(change=None, name="rules"):
    """The judge; ``change(call, answer)`` may return another reply."""

    def fn(call):
        out = answer(call)
        changed = change(call, out) if change else None
        return json.dumps(out) if changed is None else changed

    return CallableJudge(fn, name)


def rollout(task, rid, results, **fields):
    steps = tuple(
        Step(
            text=f"I do {i}",
            calls=(ToolCall("act", json.dumps({"n": i}), f"c{i}"),),
            observations=(Observation(r, "tool", "act", f"c{i}"),),
        )
        for i, r in enumerate(results, start=1)
    )
    return Trajectory(rid, task, steps, **fields)


def group(tid="t1", rows=(("a b", "c"), ("a", "x checked"), ("x", "y")), needs="a b"):
    task = Task(tid, f"Do it. needs: {needs}", "You act.")
    return Group(task, tuple(rollout(task, f"{tid}-{i}", r) for i, r in enumerate(rows)))
