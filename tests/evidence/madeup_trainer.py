"""A trainer for tests of the scheduler: it records steps and goes on from them; it learns nothing.

Behaviour is steered by settings: "pause" seconds a step, "fail" an arm that raises.
"""

import json
import time

from synthetic import JUDGE, rollouts

from rubricnb.experiments.records import RunKey, write_json


def train_arm(policy, arm, seed, folder, settings):
    write_json(folder / "config.json", {"settings": settings})
    path = folder / "train.jsonl"
    if arm == settings.get("fail"):
        raise ValueError("this arm fails on purpose")
    start = path.read_text().count("\n") if path.exists() else 0
    steps = settings["steps"] if arm != "base" else 0
    with open(folder / "starts.txt", "a") as f:
        f.write(f"{start} {time.time()}\n")
    for step in range(start + 1, steps + 1):
        time.sleep(settings.get("pause", 0))
        with open(path, "a") as f:
            f.write(json.dumps({"step": step}) + "\n")
    key = RunKey(policy, arm, seed)
    lines = [json.dumps(r) + "\n" for r in rollouts(key, settings["checkpoints"], 2)]
    (folder / "eval.jsonl").write_text("".join(lines))
    if arm == "draco":
        write_json(folder / "judge.json", JUDGE)
    return {"global_step": steps}
