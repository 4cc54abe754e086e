"""Run folders made up for tests: known success rates instead of trainings. Never shipped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rubricnb.experiments.profiles import Profile
from rubricnb.experiments.records import RunKey, seal, write_json

RATE = {"base": 0.4, "random": 0.4, "outcome": 0.7, "dynamic": 0.75, "draco": 0.8}
TINY = Profile("tiny", (0, 1), 2, (1, 2), 1, groups=2, group_size=2, workers=2)
STUDY = {
    "main": ("base", "outcome", "static", "static_credit", "dynamic", "draco", "draco_self_k3"),
    "weak": ("base", "draco"),
}
JUDGE = {
    "name": "made-up judge",
    "simulated": True,
    "noise": {"false_pass": 0.1, "correlation": 0.5},
    "phases": {
        "union": {
            "calls": 4,
            "prompt": 400,
            "cached": 0,
            "completion": 40,
            "retries": 0,
            "seconds": 1.5,
            "dollars": None,
        },
        "scoring": {
            "calls": 24,
            "prompt": 2400,
            "cached": 100,
            "completion": 240,
            "retries": 1,
            "seconds": 2.5,
            "dollars": None,
        },
    },
}


def rollouts(key: RunKey, steps, scenarios: int = 6, runs: int = 3) -> list[dict]:
    """Evaluated rollouts drawn with the arm's success rate."""
    rng = np.random.default_rng([key.seed, *map(ord, key.policy + key.arm)])
    rows = []
    for step in steps:
        for split in ("test_normal", "test_challenge", "transfer"):
            for task in range(scenarios * 3):
                for run in range(runs):
                    rows.append(
                        {
                            "arm": key.arm,
                            "policy": key.policy,
                            "seed": key.seed,
                            "step": step,
                            "split": split,
                            "scenario": f"{split}{task // 3}",
                            "task_id": f"{split}{task // 3}_{task % 3 + 1}",
                            "difficulty": 1 + task // 3 % 3,
                            "run": run,
                            "success": bool(rng.random() < RATE.get(key.arm, 0.6)),
                            "turns": int(rng.integers(3, 9)),
                            "termination": str(rng.choice(["finished", "turn_limit"])),
                            "tokens": int(rng.integers(20, 60)),
                            "checks": {"end_state": True},
                        }
                    )
    return rows


def write_run(folder: Path, key: RunKey, profile: Profile = TINY, rows=None) -> Path:
    """Write and seal one made-up run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = key.arm != "base"
    steps = profile.checkpoints if trained else (0,)
    write_json(folder / "config.json", {"settings": profile.settings})
    rows = rollouts(key, steps) if rows is None else rows
    (folder / "eval.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    if trained:
        lines = [json.dumps({"step": s}) + "\n" for s in range(1, profile.steps + 1)]
        (folder / "train.jsonl").write_text("".join(lines))
    if key.arm not in ("base", "outcome", "random"):
        write_json(folder / "judge.json", JUDGE)
    seal(
        folder,
        key,
        profile.settings,
        global_step=profile.steps if trained else 0,
        seconds=1.0,
    )
    return folder


def write_study(out: Path, profile: Profile = TINY, study=None) -> None:
    """Write every run folder of a profile."""
    for policy, arms in (study or STUDY).items():
        for arm in arms:
            for seed in profile.seeds:
                key = RunKey(policy, arm, seed)
                write_run(key.folder(out / profile.name), key, profile)
