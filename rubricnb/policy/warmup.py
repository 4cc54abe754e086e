"""Supervised warm-up of a tiny policy on demonstrations of mixed quality.

Clean demonstrations first, to learn the desk's language; then a mix that is mostly faulty, so that
the policy that RL starts from succeeds on some rollouts and fails on others of the same task.
Everything follows from the configuration: equal configurations give equal weights on one machine.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from .. import __version__
from ..errors import ConfigError
from ..files import content_hash
from ..seeds import child_seed, generator
from ..worlds.demonstrator import CLEAN, NOISY, demonstrate, scaled
from ..worlds.desk import DESKS
from ..worlds.lexicon import vocabulary
from ..worlds.pools import warm_up_tasks
from .model import SmearForCausalLM, load_policy, tiny_config
from .tokens import Words, build_tokenizer, load_tokenizer

BUCKET = 10  # batches whose examples are sorted by length together; divides clean and all steps
Example = tuple[list[int], list[bool]]  # token ids, and which of them the demonstrator chose


@dataclass(frozen=True)
class WarmUp:
    """How one policy is warmed up.

    Args:
        seed: of the weights, the tasks and the demonstrations.
        steps: optimizer steps.
        batch: demonstrations a step.
        lr: peak learning rate; cosine to 0 after ``rise`` steps.
        rise: steps of linear warm-up of the learning rate.
        clean: share of the steps, from the first, that see clean demonstrations only.
        noisy: share of faulty demonstrations afterwards.
        faults: factor on the chances of each fault.
        context: weight of the loss on prompt and answer tokens; 1 is plain language modelling.
    """

    seed: int = 0
    steps: int = 500
    batch: int = 32
    lr: float = 3e-3
    rise: int = 20
    clean: float = 0.6
    noisy: float = 0.85
    faults: float = 1.0
    context: float = 0.1


CHECKPOINTS: dict[str, WarmUp] = {
    "main": WarmUp(steps=600, faults=0.6),
    "weak": WarmUp(seed=1, faults=1.0),
}
SHIPPED = Path(__file__).parent / "checkpoints"


def examples(words: Words, config: WarmUp) -> Iterator[Example]:
    """Yield demonstrated episodes without end, clean ones first (see ``WarmUp``)."""
    desks = {name: desk() for name, desk in DESKS.items()}
    tasks = warm_up_tasks(child_seed(config.seed, "warm-up tasks"))
    rng = generator(config.seed, "warm-up quality")
    dirty = scaled(NOISY, config.faults)
    clean_count = round(config.clean * config.steps) * config.batch
    for number, task in enumerate(tasks):
        noisy = number >= clean_count and rng.random() < config.noisy
        seed = child_seed(config.seed, "warm-up episode", number)
        episode = desks[task.spec["desk"]].reset(task, seed)
        demonstrate(episode, seed, dirty if noisy else CLEAN)
        ids = words.prompt(task.prompt)
        chosen = [False] * len(ids)
        for turn in episode.turns:
            action, answer = words.action(turn.action), words.answer(turn.answer)
            ids += action + answer
            chosen += [True] * len(action) + [False] * len(answer)
        yield ids, chosen


def batches(stream: Iterator[Example], config: WarmUp) -> Iterator[list[Example]]:
    """Yield batches of examples of like length: less padding for the same examples."""
    rng = generator(config.seed, "warm-up order")
    while True:
        pool = sorted(
            (next(stream) for _ in range(BUCKET * config.batch)), key=lambda row: len(row[0])
        )
        for at in rng.permutation(BUCKET):
            yield pool[at * config.batch : (at + 1) * config.batch]


def _batch(rows: list[Example], context: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, T) ids padded on the right, and (B, T) loss weights of each token."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weight = torch.zeros(len(rows), width)
    for i, (tokens, chosen) in enumerate(rows):
        ids[i, : len(tokens)] = torch.tensor(tokens)
        weight[i, : len(tokens)] = torch.where(torch.tensor(chosen), 1.0, context)
    return ids, weight


def _step_loss(model: SmearForCausalLM, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    # Padding is on the right and attention is causal: no mask is needed.
    logits = model(ids[:, :-1], use_cache=False).logits
    weight = weight[:, 1:]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    )
    return (loss * weight.flatten()).sum() / weight.sum()


def _factor(config: WarmUp, step: int) -> float:
    """Learning rate of a step, relative to the peak."""
    if step < config.rise:
        return (step + 1) / config.rise
    return 0.5 + 0.5 * math.cos(math.pi * (step - config.rise) / (config.steps - config.rise))


def train(
    config: WarmUp, words: Words, *, progress: Callable[[int, float], None] | None = None
) -> SmearForCausalLM:
    """Return a policy warmed up from scratch; a minute or two on one core at the defaults.

    Args:
        config: the recipe.
        words: the vocabulary.
        progress: called with the number of finished steps and the last loss.
    """
    with torch.random.fork_rng():
        torch.manual_seed(child_seed(config.seed, "warm-up weights"))
        model = SmearForCausalLM(tiny_config(len(words))).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.01
    )
    curve = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _factor(config, step))
    stream = batches(examples(words, config), config)
    for step in range(config.steps):
        ids, weight = _batch(next(stream), config.context)
        loss = _step_loss(model, ids, weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        curve.step()
        if progress is not None:
            progress(step + 1, loss.item())
    return model.eval()


def save_policy(model: SmearForCausalLM, tokenizer, path: Path, record: dict) -> None:
    """Write a policy folder whole: under another name first, then renamed."""
    part = path.with_name(path.name + ".part")
    if part.exists():
        for old in part.iterdir():
            old.unlink()
    part.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    (part / "warmup.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    for file in part.iterdir():
        file.chmod(0o644)  # safetensors are written for their owner alone
    if path.exists():
        raise ConfigError(f"want a folder that does not exist yet; got {path}")
    os.replace(part, path)


def warm_up(
    config: WarmUp,
    cache: str | Path,
    *,
    progress: Callable[[int, float], None] | None = None,
) -> Path:
    """Return the folder of a policy warmed up by this recipe, trained now if it is not there.

    The folder is named by the hash of the recipe and the vocabulary.

    Args:
        config: the recipe.
        cache: where such folders are kept.
        progress: as ``train``.
    """
    tokenizer = build_tokenizer(vocabulary())
    words = Words(tokenizer)
    key = recipe_hash(config)
    path = Path(cache) / f"policy-{key[:16]}"
    if not path.exists():
        model = train(config, words, progress=progress)
        record = {
            "recipe": dataclasses.asdict(config),
            "recipe_hash": key,
            "command": command(config),
            "version": __version__,
        }
        save_policy(model, tokenizer, path, record)
    return path


def recipe_hash(config: WarmUp) -> str:
    """Hash of the recipe and of the vocabulary that it is trained on."""
    return content_hash({"recipe": dataclasses.asdict(config), "words": list(vocabulary())})


def command(config: WarmUp) -> str:
    """The command, or else the expression, that makes this policy."""
    for name, recipe in CHECKPOINTS.items():
        if recipe == config:
            return f"rubricnb warm-up {name}"
    return f"rubricnb.policy.warmup.warm_up({config!r}, cache)"


def checkpoint(name: str) -> Path:
    """Return the folder of a policy that comes with the package: "main" or "weak".

    Raises:
        ConfigError: for another name.
    """
    path = SHIPPED / name
    if name not in CHECKPOINTS or not path.is_dir():
        raise ConfigError(f"want one of the bundled policies {tuple(CHECKPOINTS)}; got {name!r}")
    return path


def policy_folder(path: str | Path) -> Path:
    """Return the folder of a bundled name; another path as it is."""
    return checkpoint(str(path)) if str(path) in CHECKPOINTS else Path(path)


def open_policy(path: str | Path) -> tuple[SmearForCausalLM, Words]:
    """Return the policy of a folder, or of a bundled name, and its vocabulary."""
    path = policy_folder(path)
    return load_policy(path), Words(load_tokenizer(path))
