"""Open what was trained, tiny or chat model, adapter or whole, to be run in a world.

A checkpoint is a name ("main", "weak", "smollm2", a transformers name) or a folder: a policy of
``rubricnb warm-up``, a model of transformers, or a plain peft folder, whose base it names. An
adapter inside of a run folder of ``rubricnb train`` is played as it was trained: with the same
limits, and the same opening of its messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import PeftModel

from ..errors import ConfigError
from ..policy.chat import open_chat
from ..policy.decode import Decoder
from ..policy.rollout import Sampled, roll
from ..policy.tokens import Words, load_tokenizer
from ..policy.warmup import CHECKPOINTS, load_policy, policy_folder
from ..worlds.base import World, WorldTask
from ..worlds.desk import Desk
from .chat_rollouts import ChatRollouts
from .chat_turns import ChatLimits
from .profile import Profile, load_profile

ADAPTER, TINY = "adapter_config.json", "rubricnb_smear"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A policy that can be run.

    Args:
        name: as tables name it.
        settings: what its rollouts depend on, beside world and seed, as JSON types.
        model: with its adapter, in evaluation mode.
        words: a tiny policy's vocabulary, or a chat model's tokenizer.
        profile: what it was trained with, None where unknown.
    """

    name: str
    settings: dict[str, Any]
    model: Any
    words: Any
    profile: Profile | None = None

    @property
    def tiny(self) -> bool:
        """Whether it is one of the small policies that speak the bundled desks' language."""
        return isinstance(self.words, Words)

    def play(
        self,
        world: World,
        split: str,
        tasks: Sequence[WorldTask],
        seeds: Sequence[int],
        ids: Sequence[str],
        temperature: float = 1.0,
    ) -> list[Sampled]:
        """Return one rollout per task.

        Raises:
            ConfigError: for a tiny policy in another world than a bundled desk.
        """
        if self.tiny:
            if not isinstance(world, Desk):
                raise ConfigError(
                    f"want the world orders or library for a tiny policy; got {world.name}"
                )
            model = Decoder(self.model)
            return roll(model, self.words, world, tasks, seeds, ids=ids, temperature=temperature)
        thinking, limits = "off", ChatLimits(turns=world.max_turns)
        if self.profile is not None:
            r, thinking = self.profile.rollouts, self.profile.policy.thinking
            limits = ChatLimits(
                prompt=r.prompt, turn=min(r.turn, r.response), response=r.response,
                turns=world.max_turns, threads=r.threads, begin=r.begin,
            )  # fmt: skip
        rollouts = ChatRollouts(world, split, self.words, limits, thinking=thinking)
        return rollouts.play(self.model, tasks, ids, temperature=temperature, seeds=seeds)


def open_checkpoint(name: str, world: World) -> Checkpoint:
    """Return a checkpoint by name or folder.

    Args:
        name: see the module.
        world: where it will be run; a chat model's template is checked with its tools.
    Raises:
        ConfigError: nothing can be opened there.
    """
    folder = Path(name)
    if name in CHECKPOINTS or _model_type(folder) == TINY:
        path = policy_folder(name)
        words = Words(load_tokenizer(path))
        return Checkpoint(name, {"weights": _hash(path)}, load_policy(path), words)
    profile = _profile_of(folder)
    if not (folder / ADAPTER).is_file():
        model, tokenizer = _chat(name, world, profile)
        told = {"weights": _hash(folder) if folder.is_dir() else name}
        return Checkpoint(name, told, model.eval(), tokenizer, profile)
    base = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"]
    told = {"weights": _hash(folder)}
    if profile is not None:
        told["rollouts"] = profile.rollouts.model_dump(mode="json", exclude={"threads"})
    if _model_type(Path(base)) == TINY:
        adapted = PeftModel.from_pretrained(load_policy(base), folder).eval()
        return Checkpoint(name, told, adapted, Words(load_tokenizer(base)), profile)
    model, tokenizer = _chat(base, world, profile)
    return Checkpoint(
        name, told, PeftModel.from_pretrained(model, folder).eval(), tokenizer, profile
    )


def _chat(name: str, world: World, profile: Profile | None) -> tuple[Any, Any]:
    from .start import model_files

    dtype, thinking, gguf = "auto", "off", None
    if profile is not None:
        name, dtype, thinking = profile.policy.model, profile.policy.dtype, profile.policy.thinking
        gguf = profile.policy.gguf
    where, gguf = model_files(name, gguf)
    return open_chat(where, gguf_file=gguf, dtype=dtype, tools=world.tools(), thinking=thinking)


def _profile_of(folder: Path) -> Profile | None:
    """The profile of the run folder that an ``adapters/step-N`` lies in."""
    path = folder.resolve().parent.parent / "profile.yaml"
    inside = folder.parent.name == "adapters" and path.is_file()
    return load_profile(path) if inside else None


def _model_type(folder: Path) -> str | None:
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError):
        return None


def _hash(folder: Path) -> str:
    """Of the weights: a folder that was trained further is another model."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as f:
            while block := f.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]
