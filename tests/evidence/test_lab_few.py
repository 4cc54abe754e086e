"""The lab on a file as small as a first try: a few tasks are no reason to fail."""

import numpy as np

from rubricnb.lab.earlier import early_stopping


def test_early_stopping_skips_splits_whose_fit_part_has_one_task():
    asked = []

    def scores(fit):
        asked.append({i // 6 for i in fit})
        return [np.array([0.4, 0.6])] * 24

    success = np.tile([0.0, 1.0], 12)
    task = np.repeat(np.arange(4), 6)
    tokens = [np.ones(2)] * 24
    rows, _ = early_stopping(scores, success[:18], task[:18], tokens[:18], alpha=0.1, delta=0.1)
    assert not asked
    assert not rows
    rows, made = early_stopping(scores, success, task, tokens, alpha=0.1, delta=0.1)
    assert asked
    assert all(len(tasks) > 1 for tasks in asked)
    assert rows
    assert all(one.alarms for one in made.values())
