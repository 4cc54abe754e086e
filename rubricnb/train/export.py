"""Per-token credit for other trainers, in verl's layout, as .npz or .safetensors.

verl's actor reads a batch of B responses of T tokens: ``advantages`` and ``response_mask``, both
(B, T), responses padded on the right, prompts on the left, and groups named by ``uid``. Its loss
multiplies ``advantages`` into the ratio where ``response_mask`` is 1, so a tensor made here takes
the place of the one that its advantage estimator returns (``returns`` is the same, as in GRPO):

    data.batch["advantages"] = torch.from_numpy(batch["advantages"])

Two ways in: rollouts whose sampled ids are at hand (``batch_of_rollouts``), or graded logs beside
the response mask of the trainer that sampled them (``batch_of_mask``). Text is never tokenised
again: ids that were not sampled would carry another policy's ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..credit import RULES, CreditBatch
from ..errors import ConfigError, CreditError, FormatError
from ..grading import arrays
from ..rubric import GradedGroup

Arrays = dict[str, np.ndarray]
TEXTS = ("uid", "trajectory_id")


class Ids(Protocol):
    """A rollout as it was sampled: ids, and the step of each completion token (0: not sampled)."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    step_ids: Sequence[int]


def step_ids_of(mask_BT: np.ndarray) -> np.ndarray:
    """Return (B, T) the step of each token: the runs of ones in a response mask, from 1; 0 outside.

    Args:
        mask_BT: (B, T) of 0 and 1, as verl's ``response_mask``: 1 where the policy wrote.

    >>> step_ids_of(np.array([[1, 1, 0, 0, 1, 0]])).tolist()
    [[1, 1, 0, 0, 2, 0]]
    """
    mask = np.asarray(mask_BT) > 0
    before = np.pad(mask[:, :-1], ((0, 0), (1, 0)))
    return np.cumsum(mask & ~before, axis=1) * mask


def graded_credit(
    graded: GradedGroup,
    step_ids: Sequence[Sequence[int]],
    rule: str = "draco",
    options: Mapping[str, Any] | None = None,
) -> tuple[np.ndarray, CreditBatch]:
    """Return (G, S) credit per token of each step, n_j counted on the tokens, and what it is from.

    Args:
        graded: the group.
        step_ids: G rows, the step of each token.
        rule: a name of ``RULES``.
        options: its keyword arguments.
    Raises:
        CreditError: for an unknown rule, or more steps with tokens than the transcript has.
    """
    if rule not in RULES:
        raise CreditError(f"want a rule among {', '.join(RULES)}; got {rule!r}")
    made = arrays(graded, tokens=len)
    counted = np.zeros(made.tokens_GS.shape)
    for t, row, ids in zip(graded.group.trajectories, counted, step_ids, strict=True):
        n = np.bincount(np.asarray(ids, dtype=int))[1:]
        if len(n) > len(t):
            raise CreditError(
                f"want at most {len(t)} runs of policy tokens, the steps of {t.id!r}; got {len(n)}"
            )
        row[: len(n)] = n
    batch = replace(made.batch(), tokens_GS=counted)
    return RULES[rule](batch, **(options or {})), batch


def batch_of_rollouts(
    rollouts: Sequence[Ids],
    graded: Sequence[GradedGroup],
    *,
    rule: str = "draco",
    options: Mapping[str, Any] | None = None,
    pad: int = 0,
) -> Arrays:
    """Return verl's batch of rollouts whose ids are at hand, group by group.

        advantages[b, t] = credit[b, step_ids[b, t]], 0 at tokens of no step

    Law: a graded row's advantages sum to A N, as plain GRPO's do (for a rule that conserves).

    Args:
        rollouts: B sampled rollouts, such as ``rubricnb.policy.rollout.Sampled``, in the order of
            the groups and their members.
        graded: their groups.
        rule, options: see ``graded_credit``.
        pad: the padding id.
    Returns:
        input_ids, attention_mask, position_ids (B, P + T), prompts (B, P), responses,
        response_mask, step_ids, advantages, returns, token_level_scores (B, T), uid,
        trajectory_id (B,).
    Raises:
        CreditError: numbers of rollouts and members differ, or see ``graded_credit``.
    """
    names = _members(graded)
    if len(names) != len(rollouts):
        raise CreditError(f"want a rollout for each of {len(names)} members; got {len(rollouts)}")
    P = max((len(r.prompt_ids) for r in rollouts), default=0)
    T = max((len(r.completion_ids) for r in rollouts), default=0)
    B = len(rollouts)
    prompts, there = np.full((B, P), pad), np.zeros((B, P + T), dtype=np.int64)
    responses, steps = np.full((B, T), pad), np.zeros((B, T), dtype=np.int64)
    for b, r in enumerate(rollouts):
        p, n = len(r.prompt_ids), len(r.completion_ids)
        prompts[b, P - p :], responses[b, :n] = r.prompt_ids, r.completion_ids
        steps[b, :n], there[b, P - p : P + n] = r.step_ids, 1
    return {
        "input_ids": np.concatenate([prompts, responses], axis=1).astype(np.int64),
        "attention_mask": there,
        "position_ids": np.maximum(there.cumsum(axis=1) - 1, 0),
        "prompts": prompts.astype(np.int64),
        "responses": responses.astype(np.int64),
        **_credited(graded, names, steps, rule, options),
    }


def batch_of_mask(
    mask_BT: np.ndarray,
    trajectory_ids: Sequence[str],
    graded: Sequence[GradedGroup],
    *,
    rule: str = "draco",
    options: Mapping[str, Any] | None = None,
    cut: bool = False,
) -> Arrays:
    """Return the advantages of another trainer's batch, from its mask and the graded rollouts.

    Args:
        mask_BT: (B, T) its response mask; each run of ones is one step.
        trajectory_ids: B names of its rows, as in the graded file.
        graded: groups that hold all of them, and no others.
        rule, options: see ``graded_credit``.
        cut: whether a row may have fewer runs than its rollout has steps, because the trainer cut
            the response; a turn that no gap divides from the next must not pass for that.
    Returns:
        response_mask, step_ids, advantages, returns, token_level_scores (B, T), uid,
        trajectory_id (B,), rows as in ``mask_BT``.
    Raises:
        CreditError: naming a row without a graded rollout, or a rollout without a row.
    """
    mask = np.asarray(mask_BT)
    if mask.ndim != 2 or len(mask) != len(trajectory_ids) or not np.isin(mask, (0, 1)).all():
        raise CreditError(
            f"want a mask of 0 and 1 with a row for each of {len(trajectory_ids)} ids; got shape "
            f"{mask.shape}"
        )
    names = _members(graded)
    own = [name for _, name in names]
    told = [str(i) for i in trajectory_ids]
    for which, ids in (("a row of its own", told), ("one graded rollout", own)):
        twice = next((i for i in ids if ids.count(i) > 1), None)
        if twice is not None:
            raise CreditError(f"want {which} for each rollout; got {twice!r} twice")
    lost = sorted(set(told) ^ set(own))
    if lost:
        where = "the mask's ids" if lost[0] in own else "the graded groups"
        raise CreditError(f"want the same rollouts in both; got {lost[0]!r} not in {where}")
    order = [told.index(name) for name in own]
    steps = step_ids_of(mask[order])
    for (_, name), n, row in zip(names, _steps(graded), steps, strict=True):
        if row.max(initial=0) < n and not cut:
            raise CreditError(
                f"want {n} runs of ones, the steps of {name!r}; got {row.max(initial=0)} (say so "
                "where the response was cut)"
            )
    made = _credited(graded, names, steps, rule, options)
    back = np.argsort(order)
    return {k: v[back] for k, v in made.items()}


def _members(graded: Sequence[GradedGroup]) -> list[tuple[str, str]]:
    return [(g.group.task.id, t.id) for g in graded for t in g.group.trajectories]


def _steps(graded: Sequence[GradedGroup]) -> list[int]:
    return [len(t) for g in graded for t in g.group.trajectories]


def _credited(graded, names, steps_BT, rule, options) -> Arrays:
    """What is (B, T) or (B,): credit and score by token, and who each row is."""
    advantages, score = np.zeros(steps_BT.shape, np.float32), np.zeros(steps_BT.shape, np.float32)
    at = 0
    for group in graded:
        rows = slice(at, at + len(group.group))
        at = rows.stop
        credit, batch = graded_credit(group, steps_BT[rows], rule, options)
        table = np.pad(np.nan_to_num(credit), ((0, 0), (1, 0)))
        advantages[rows] = np.take_along_axis(table, steps_BT[rows], axis=1)
        reward = np.nan_to_num(batch.scalar("rubric", "the export"))  # an ungraded row pushes 0
        for b, r in zip(range(rows.start, rows.stop), reward, strict=True):
            live = np.flatnonzero(steps_BT[b])
            if live.size:
                score[b, live[-1]] = r
    return {
        "response_mask": (steps_BT > 0).astype(np.int64),
        "step_ids": steps_BT.astype(np.int64),
        "advantages": advantages,
        "returns": advantages.copy(),
        "token_level_scores": score,
        "uid": np.array([task for task, _ in names], dtype=np.str_),
        "trajectory_id": np.array([name for _, name in names], dtype=np.str_),
    }


def read_mask(path: str | Path) -> tuple[np.ndarray, list[str]]:
    """Return response_mask and trajectory_id of a .npz or .safetensors file.

    In safetensors, which holds no text, the names are JSON in the metadata.

    Raises:
        FormatError: for another file, or one that lacks either.
    """
    path, texts = Path(path), {}
    try:
        if path.suffix == ".safetensors":
            tensors, texts = _read_safetensors(path)
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as f:
                tensors = {k: f[k] for k in f.files}
            texts = {k: tensors[k].tolist() for k in TEXTS if k in tensors}
        else:
            raise ConfigError(f"want a .npz or .safetensors file; got {path}")
        return tensors["response_mask"], list(texts["trajectory_id"])
    except (OSError, ValueError, KeyError) as e:
        raise FormatError(f"{path}: want response_mask and trajectory_id; got {e!r}") from e


def _read_safetensors(path: Path) -> tuple[Arrays, dict[str, list[str]]]:
    import json

    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as f:
            told = f.metadata() or {}
            tensors = {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118 - no mapping
    except SafetensorError as e:
        raise ValueError(str(e)) from e
    return tensors, {k: json.loads(told[k]) for k in TEXTS if k in told}


def write_batch(path: str | Path, batch: Arrays) -> None:
    """Write a batch as .npz, or as .safetensors with the texts as JSON in its metadata.

    Raises:
        ConfigError: for another suffix.
    """
    import json

    path = Path(path)
    if path.suffix == ".npz":
        np.savez(path, **batch)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        texts = {k: json.dumps(batch[k].tolist()) for k in TEXTS if k in batch}
        tensors = {k: np.ascontiguousarray(v) for k, v in batch.items() if k not in TEXTS}
        save_file(tensors, path, metadata=texts)
    else:
        raise ConfigError(f"want a .npz or .safetensors file to write; got {path}")
