"""ChatRollouts: trl's ``rollout_func`` for a chat model in any world, with exact step ids.

All live rollouts take their turn together: sample one message each, read its tool calls, let every
world answer (on threads, for slow engines), append the answers, drop the rollouts that are over.
An episode is over when the world says so, and not when a message happens to hold no call.

What the policy sampled stays as it was sampled: ids are never decoded and tokenised again. Token t
of a completion belongs to step ``step_ids[t]``, or to none (0) where the world wrote it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..errors import ConfigError
from ..files import to_json
from ..policy.chat_calls import read_calls, split_thinking
from ..policy.rollout import Sampled, columns
from ..policy.template import check_template, glue, neutralise
from ..seeds import child_seed
from ..trajectory import Observation, Step, ToolCall, Trajectory
from ..worlds.agent import as_task
from ..worlds.base import World, WorldTask
from .chat_turns import ChatLimits, Engine, Live, Turns, memory, sampling

NUDGE = "Nothing was called. Call a tool, or end the task by the tool for that."


# How it ended, as meta["ended"] says it -> the trajectory's termination.
ENDED = {
    "done": "finished",
    "stopped": "finished",
    "turns": "turn_limit",
    "context": "length",
    "response": "length",
    "error": "error",
}


class ChatRollouts:
    """Rollouts of a chat model in a world, as trl's GRPOTrainer asks for them.

    Give it as ``rollout_func`` and ``dataset()`` as ``train_dataset`` to CreditGRPOTrainer. Its
    figures of the last batch are in ``stats``: seconds, sampled tokens a second, peak memory.

    Args:
        world: any World.
        split: whose tasks are attempted.
        tokenizer: with a template that ``check_template`` accepts.
        limits: default ``ChatLimits()``.
        seed: of the worlds' luck and of the sampling, with the step and the rollout's name.
        thinking: see ``check_template``.
    Raises:
        ConfigError: the template is not fit for training.
    """

    def __init__(
        self,
        world: World,
        split: str,
        tokenizer: PreTrainedTokenizerBase,
        limits: ChatLimits | None = None,
        seed: int = 0,
        *,
        thinking: str = "refuse",
    ) -> None:
        self.world, self.tokenizer, self.seed = world, tokenizer, seed
        self.limits = limits or ChatLimits()
        self.tasks = {t.id: t for t in world.tasks(split)}
        self.options = {"enable_thinking": False} if thinking == "off" else {}
        self.report = check_template(tokenizer, world.tools(), thinking=thinking, mask=False)
        self._begun = tokenizer(self.limits.begin, add_special_tokens=False)["input_ids"]
        self.stats: dict[str, float] = {}

    def dataset(self) -> Any:
        """The split as trl's training set: one row a task, its id as the prompt."""
        from datasets import Dataset

        return Dataset.from_list([{"prompt": name} for name in self.tasks])

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, list]:
        """trl's rollout function: prompts are task ids, repeated for the members of a group."""
        step, first = trainer.state.global_step, trainer.accelerator.process_index * len(prompts)
        names = [f"{p}/{step}.{first + i}" for i, p in enumerate(prompts)]
        sample = Engine(trainer) if getattr(trainer, "use_vllm", False) else None
        made = self.play(
            trainer.accelerator.unwrap_model(trainer.model),
            [self.tasks[p] for p in prompts],
            names,
            temperature=trainer.args.temperature,
            engine=sample,
        )
        return columns(made)

    def play(
        self,
        model: torch.nn.Module,
        tasks: Sequence[WorldTask],
        ids: Sequence[str],
        *,
        temperature: float = 1.0,
        engine: Any = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Sampled]:
        """Return one rollout per task; what it does follows from weights, seed and its id.

        Args:
            model: any causal model of transformers, adapters included.
            tasks: of the world; repeated for a group's members.
            ids: the rollouts' names.
            temperature: > 0.
            engine: in place of the model's own sampling, ``fn(histories, room) -> (ids,
                log-probs)``; called once a turn until every process's rollouts are over.
            seeds: of world and sampling; default: from ``seed`` and the rollouts' names.
        Raises:
            ConfigError: a prompt is longer than the limit, or the temperature is not positive.
        """
        if not temperature > 0:
            raise ConfigError(f"want a temperature > 0; got {temperature}")
        began = time.perf_counter()
        if seeds is None:
            seeds = [child_seed(self.seed, "rollout", name) for name in ids]
        with ThreadPoolExecutor(self.limits.threads) as threads, sampling(model):
            live = list(threads.map(self._begin, tasks, ids, seeds))
            stops = self.report.stop_ids
            turns = Turns(live, self.limits, self.glue, model, stops, temperature, engine)
            while turns.live:
                said = turns.sample()
                list(threads.map(self._answer, turns.live, said))
                turns.append()
            made = list(threads.map(self._finish, live))
        seconds = time.perf_counter() - began
        sampled = sum(len([s for s in m.step_ids if s]) for m in made)
        self.stats = {
            "rollout_seconds": round(seconds, 3),
            "sampled_tokens": sampled,
            "tokens_per_second": round(sampled / seconds, 1),
            "world_tokens": sum(len(m.step_ids) for m in made) - sampled,
            **memory(),
        }
        return made

    def _begin(self, task: WorldTask, name: str, seed: int) -> Live:
        live = Live(name, task, None, np.random.default_rng(child_seed(seed, "sample")))
        try:
            live.episode = self.world.reset(task, seed)
        except Exception as e:  # an engine that does not come up ends this rollout, not the others
            live.ended, live.error = "error", f"{type(e).__name__}: {e}"
        told = as_task(self.world, task)
        user = getattr(live.episode, "opening", "") or told.prompt
        safe = [neutralise(t, self.report.neutralised) for t in (told.system, user)]
        messages = [
            {"role": r, "content": t} for r, t in zip(("system", "user"), safe, strict=True) if t
        ]
        made = self.tokenizer.apply_chat_template(
            messages,
            tools=self._tools(live) or None,
            add_generation_prompt=True,
            return_dict=True,
            **self.options,
        )
        live.prompt = [*made["input_ids"], *self._begun]
        if len(live.prompt) > self.limits.prompt:
            raise ConfigError(
                f"want a prompt of at most {self.limits.prompt} tokens; got {len(live.prompt)} "
                f"for task {task.id} (raise ChatLimits.prompt, or show fewer tools)"
            )
        return live

    def _tools(self, live: Live) -> list[dict[str, Any]]:
        return getattr(live.episode, "tools", self.world.tools)()

    def _answer(self, live: Live, sampled: Sequence[int]) -> None:
        """Read one message, act on it, and note the step with what came back."""
        stops = self.report.stop_ids
        ids = sampled[:-1] if sampled[-1] in stops else sampled
        raw = self.limits.begin + self.tokenizer.decode(ids, skip_special_tokens=False)
        thought, said = split_thinking(raw)
        names = [t["function"]["name"] for t in self._tools(live)]
        prose, calls = read_calls(said, names, lenient=self.limits.lenient)
        for token in self.tokenizer.all_special_tokens:
            prose = prose.replace(token, "")
        seen: list[Observation] = []
        if calls:
            live.idle = 0
            getattr(live.episode, "new_turn", lambda: None)()
            for call in calls:
                if live.episode.done or live.ended:
                    break
                seen.append(self._called(live, call))
        elif hasattr(live.episode, "say"):
            self._guarded(live, seen, lambda: live.episode.say(prose).text)
        else:
            live.idle += 1
            if live.idle > self.limits.reminders:
                live.ended = "stopped"
            else:
                seen.append(Observation(NUDGE, "user"))
        if not live.ended and live.episode.done:
            turns = getattr(live.episode, "termination", "") == "turn_limit"
            live.ended = "turns" if turns else "done"
        if not live.ended and len(live.steps) + 1 >= (self.limits.turns or self.world.max_turns):
            live.ended = "turns"
        live.steps.append(Step(prose, calls, tuple(seen), thought, tokens=len(sampled)))

    def _called(self, live: Live, call: ToolCall) -> Observation:
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError:
            arguments = None
        if call.name == "invalid" or not isinstance(arguments, Mapping):
            return Observation("error: want a call as a JSON object", "tool", call.name, call.id)
        seen: list[Observation] = []
        self._guarded(live, seen, lambda: live.episode.call(call.name, arguments).text, call)
        return seen[0] if seen else Observation("error", "tool", call.name, call.id)

    def _guarded(self, live: Live, seen: list, act: Any, call: ToolCall | None = None) -> None:
        """One action of the world; what its engine raises ends this rollout, not the others."""
        try:
            text = act()
        except Exception as e:
            live.ended, live.error = "error", f"{type(e).__name__}: {e}"
            return
        most = self.limits.observation
        if len(text) > most:
            left = len(text) - most
            text = f"{text[: most // 2]}\n[{left} characters left out]\n{text[-(most // 2) :]}"
        if call is not None:
            seen.append(Observation(text, "tool", call.name, call.id))
        elif text:
            seen.append(Observation(text, "user"))

    def glue(self, live: Live, sampled: Sequence[int]) -> list[int]:
        """The ids of the last step's observations, up to where the policy speaks again."""
        answers = [
            {"role": o.role, "content": o.text, "name": o.name, "tool_call_id": o.call_id}
            for o in live.steps[-1].observations
        ] or [{"role": "user", "content": NUDGE}]
        ids = glue(
            self.tokenizer,
            answers,
            self.report.turn_end,
            closed=sampled[-1] in self.report.stop_ids,
            controls=self.report.neutralised,
            **self.options,
        )
        return [*ids, *self._begun]

    def _finish(self, live: Live) -> Sampled:
        verdict, meta = None, {"ended": live.ended, "world": self.world.name}
        try:
            if live.ended != "error":
                verdict = live.episode.evaluate()
        except Exception as e:
            live.ended, live.error = "error", f"{type(e).__name__}: {e}"
        finally:
            getattr(live.episode, "close", lambda: None)()
        if verdict is not None:
            meta["checks"] = to_json(verdict.checks)
        if not live.ids:  # the world never came up: trl wants one token, which no step owns
            live.add([self.report.stop_ids[0]], 0, [0.0])
        trajectory = Trajectory(
            live.id,
            as_task(self.world, live.task),
            tuple(live.steps),
            None if verdict is None else float(verdict.success),
            ENDED[live.ended],
            model=getattr(self.tokenizer, "name_or_path", ""),
            source={"format": "rubricnb chat rollouts"},
            warnings=(live.error,) if live.error else (),
            meta={**meta, "ended": live.ended},
        )
        return Sampled(
            tuple(live.prompt),
            tuple(live.ids),
            tuple(live.step_ids),
            tuple(live.logprobs),
            trajectory,
            {} if verdict is None else dict(verdict.checks),
        )
