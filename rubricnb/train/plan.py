"""What a training would do and cost, counted from its profile: nothing is asked and no weight read.

Rollouts, steps and judge calls are exact for replies that need no retry. Tokens, memory and
dollars rest on the lengths and dimensions that the profile states, and say so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ConfigError
from ..judge.config import JudgeConfig
from ..judge.estimate import calls_of_group
from ..judge.prices import Price, PriceTable, load_prices
from ..metrics.cost_model import JudgingCost, Workload, phases
from ..rubric import Criterion, Rubric
from .arms import Arm, arm
from .needs import Need, needs_of
from .profile import Profile, Shape
from .shapes import shape_of

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
GB = 1e9
# What the paper paid for 100 steps of its judge (App. F), beside whose row ours may stand.
PAPER_DOLLARS = 1607.0
_COST_ARM = {
    ("static", "none"): "static rubric",
    ("static", "separate"): "static rubric + step credit",
    ("dynamic", "none"): "dynamic rubric",
    ("dynamic", "separate"): "dynamic rubric + step credit",
}
_STAND_IN = Rubric(
    (Criterion("C1", "any"),)
)  # a fixed rubric costs the same calls whatever it asks


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training comes to.

    Args:
        profile: the profile, defaults filled in.
        rollouts: rollouts a step and in all, steps, epochs, evaluation rollouts.
        calls: judge calls a group at first sight of its task and after, and in all, by phase.
        tokens: policy and judge tokens, as far as assumed lengths tell.
        memory: gigabytes by part; None where a dimension is unknown.
        dollars: of the judge, None without a price; and where the price is from.
        needs: what is there and what is missing on this machine.
        shape_from: where the policy's dimensions are from.
    """

    profile: Profile
    rollouts: dict[str, float]
    calls: dict[str, Any]
    tokens: dict[str, float]
    memory: dict[str, float | None]
    dollars: dict[str, Any]
    needs: tuple[Need, ...]
    shape_from: str = "the profile"

    @property
    def missing(self) -> tuple[Need, ...]:
        """What has to be had before the training can start."""
        return tuple(n for n in self.needs if not n.met)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON types."""
        out = {k: getattr(self, k) for k in ("rollouts", "calls", "tokens", "memory", "dollars")}
        return {
            "profile": self.profile.to_json(),
            **out,
            "shape_from": self.shape_from,
            "needs": [asdict(n) for n in self.needs],
            "ready": not self.missing,
        }


def plan(profile: Profile, prices: PriceTable | None = None) -> Plan:
    """Return what a training would do, cost and need.

    Args:
        profile: the training.
        prices: default: the user's table and the shipped one.
    Raises:
        ConfigError: where the profile contradicts itself or its world.

    >>> from rubricnb.train.profile import load_profile
    >>> p = plan(load_profile("paper-qwen3.6-27b"))
    >>> p.rollouts["a step"], p.rollouts["steps"], p.rollouts["in all"]
    (96, 100, 9600)
    >>> p.calls["a group, task first seen"], p.calls["a group, after"]
    (20, 19)
    """
    used = arm(profile.arm)
    rollouts = _rollouts(profile)
    parts = _judging(profile, used)
    shape, source = shape_of(profile)
    return Plan(
        profile,
        rollouts,
        _calls(profile, used, rollouts),
        _tokens(profile, rollouts, parts),
        _memory(profile, shape),
        _dollars(profile, parts, prices or load_prices()),
        needs_of(profile, judged=used.reward == "rubric"),
        source,
    )


def _rollouts(p: Profile) -> dict[str, float]:
    whole = p.world.tasks // p.rollouts.prompts  # trl leaves out an epoch's last, smaller batch
    step = p.rollouts.prompts * p.rollouts.group_size
    checkpoints = len(p.training.evaluate_at)
    each = sum(w.tasks for w in p.evaluation) * p.runs
    if step % p.hardware.processes:
        raise ConfigError(
            f"want rollouts a step that {p.hardware.processes} processes share evenly; got {step} "
            "(change rollouts.prompts, rollouts.group_size or hardware.processes)"
        )
    return {
        "a step": step,
        "steps": p.training.steps,
        "in all": step * p.training.steps,
        "batches an epoch": whole,
        "epochs": p.training.steps / whole,
        "a process and step": step // p.hardware.processes,
        "of an evaluation": each,
        "of all evaluations": each * checkpoints,
    }


def _calls(p: Profile, used: Arm, rollouts: dict[str, float]) -> dict[str, Any]:
    if used.reward != "rubric":
        return {"a group, task first seen": 0, "a group, after": 0, "in all": 0}
    rubric = _STAND_IN if used.rubric == "static" else "dynamic"
    config = JudgeConfig(rubric=rubric, attribution=used.attribution, votes=used.votes)
    first = calls_of_group(config, p.rollouts.group_size)
    after = calls_of_group(config, p.rollouts.group_size, first=False)
    groups = p.rollouts.prompts * p.training.steps
    # Every task is met sooner or later once more than an epoch is trained; in a first epoch all
    # tasks are new. Which ones an epoch leaves out depends on its order, so this is the most.
    seen = min(groups, p.world.tasks)
    return {
        "a group, task first seen": first,
        "a group, after": after,
        "groups": groups,
        "tasks": seen,
        "in all": seen * first + (groups - seen) * after,
    }


def _judging(p: Profile, used: Arm) -> dict[str, JudgingCost]:
    """Judge tokens by phase over the whole training; {} where no judge is asked."""
    if used.reward != "rubric":
        return {}
    a = p.assumed
    w = Workload(
        groups=p.rollouts.prompts, rollouts=p.rollouts.group_size, trajectory=a.rollout + a.task,
        policy=a.generated, rubric=a.rubric, score=a.reply, task=a.task,
        summary=a.summary + a.task, steps=p.training.steps,
    )  # fmt: skip
    made = dict(phases(w, _COST_ARM[used.rubric, used.attribution], used.votes))
    if "task_rubric" in made:  # asked once a task, not once a group
        share = min(1.0, p.world.tasks / (p.rollouts.prompts * p.training.steps))
        made["task_rubric"] = _scaled(made["task_rubric"], share)
    return made


def _scaled(cost: JudgingCost, share: float) -> JudgingCost:
    from dataclasses import replace

    names = ("calls", "full_reads", "prompt", "cached", "completion")
    return replace(cost, **{n: getattr(cost, n) * share for n in names})


def _tokens(
    p: Profile, rollouts: dict[str, float], parts: dict[str, JudgingCost]
) -> dict[str, float]:
    out = {
        "policy, generated": rollouts["in all"] * p.assumed.generated,
        "policy, at most": rollouts["in all"] * p.rollouts.response,
    }
    for kind in ("prompt", "cached", "completion"):
        out[f"judge, {kind}"] = sum(getattr(c, kind) for c in parts.values())
    out |= {f"judge, {name}": c.tokens for name, c in parts.items()}
    return {k: round(v) for k, v in out.items()}


def _dollars(p: Profile, parts: dict[str, JudgingCost], table: PriceTable) -> dict[str, Any]:
    free = p.judge.model == "offline" or not parts
    price = Price(0, 0, 0, "no model is asked") if free else None
    price = price or table.find(p.judge.base_url, p.judge.model)
    if price is None:
        return {"judge": None, "prices": f"no price for {p.judge.model!r} at {p.judge.base_url!r}"}
    rates = (price.prompt, price.cached, price.completion)
    by_phase = {n: round(c.dollars(*rates), 2) for n, c in parts.items()}
    return {"judge": round(sum(by_phase.values()), 2), "prices": price.table, **by_phase}


def _memory(p: Profile, shape: Shape | None) -> dict[str, float | None]:
    """Gigabytes of one training process's parts, unsharded, and of one rollout's KV cache."""
    if shape is None:
        return {"weights": None}
    size = BYTES[p.policy.dtype]
    adapter = _lora_parameters(shape, p.policy.lora.r)
    context = p.rollouts.prompt + p.rollouts.response
    weights = shape.parameters * size / GB
    out: dict[str, float | None] = {
        "weights": weights,
        **{k: weights / n for k, n in _shards(p).items()},
        # Adapter weights, gradients and two moments, in float32.
        "adapter and optimizer": None if adapter is None else adapter * 16 / GB,
        "KV cache of one rollout": None,
        "logits of one micro-batch": None,
    }
    if shape.layers and shape.kv_heads and shape.head_dim:
        cache = 2 * shape.layers * shape.kv_heads * shape.head_dim * size * context
        out["KV cache of one rollout"] = cache / GB
    if shape.vocabulary:
        # Logits and their gradient in float32: the largest single piece of a step.
        out["logits of one micro-batch"] = (
            2 * 4 * p.training.micro * p.rollouts.response * shape.vocabulary / GB
        )
    return {k: None if v is None else round(v, 3) for k, v in out.items()}


def _shards(p: Profile) -> dict[str, int]:
    """Into how many parts the weights go, by where they are."""
    h, out = p.hardware, {}
    if h.accelerate.get("zero_stage") == 3 or any(k.startswith("fsdp_") for k in h.accelerate):
        out["weights on a training GPU"] = h.processes
    if (h.vllm or {}).get("mode") == "server":
        out["weights on a serving GPU"] = h.vllm.get("tensor_parallel_size", 1)
    return out


def _lora_parameters(s: Shape, r: int) -> float | None:
    """r (in + out) of every linear layer but the output: four of attention, three of the MLP."""
    dims = (s.layers, s.hidden, s.intermediate, s.heads, s.kv_heads, s.head_dim)
    if any(d is None for d in dims):
        return None
    layers, h, m, heads, kv, d = dims
    q, k = heads * d, kv * d
    return layers * r * (2 * (h + q) + 2 * (h + k) + 3 * (h + m))
