"""One training in a process of its own: ``python -m rubricnb.experiments.worker JOB.json``.

Ends with its parent, so that neither Ctrl-C in a notebook nor kill -9 of the command leaves a
training behind; the trainer saves every step, so that the next start goes on from there.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path

from .records import RunKey, seal, verify

TRAIN = "rubricnb.train.run:train_arm"


def end_with_parent(every: float = 1.0) -> None:
    """Stop this process as soon as the one that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os._exit(130)

    threading.Thread(target=watch, daemon=True).start()


def work(job: dict) -> None:
    """Train one arm and seal its folder.

    The function that trains is called as ``train_arm(policy, arm, seed, folder, settings)``,
    continues what the folder holds, and returns a mapping with "global_step".
    """
    key, folder = RunKey(job["policy"], job["arm"], job["seed"]), Path(job["folder"])
    module, name = job.get("train", TRAIN).split(":")
    train_arm = getattr(importlib.import_module(module), name)
    start = time.monotonic()
    result = train_arm(key.policy, key.arm, key.seed, folder, job["settings"])
    seal(
        folder,
        key,
        job["settings"],
        global_step=int(result["global_step"]),
        seconds=time.monotonic() - start,
    )
    verify(folder, key, job["settings"])


if __name__ == "__main__":
    end_with_parent()
    work(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
