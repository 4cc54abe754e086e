"""The tiny policy: its decoding is transformers' own, its token bookkeeping is exact."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from rubricnb.errors import ConfigError
from rubricnb.policy.decode import Decoder
from rubricnb.policy.model import SmearForCausalLM, load_policy, tiny_config
from rubricnb.policy.rollout import Limits, roll
from rubricnb.policy.tokens import SPECIALS, Words, build_tokenizer, load_tokenizer
from rubricnb.policy.warmup import (
    CHECKPOINTS,
    SHIPPED,
    WarmUp,
    checkpoint,
    open_policy,
    recipe_hash,
    warm_up,
)
from rubricnb.worlds.desk import OrdersDesk
from rubricnb.worlds.lexicon import vocabulary

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def policy():
    return open_policy("main")


def sequences(B=5, T=24, size=200, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(5, size, (B, T), generator=draw)


def test_chunked_decoding_gives_the_logits_of_transformers(policy):
    model, _ = policy
    ids = sequences()
    with torch.no_grad():
        want = model(ids).logits
    decoder, B = Decoder(model), len(ids)
    cache = decoder.cache(B, 32)
    rows = torch.arange(B)
    for count in ([5, 3, 7, 5, 1], [1, 1, 1, 1, 1], [2, 4, 1, 3, 6], [1, 1, 1, 1, 1]):
        count = torch.tensor(count)
        at = (cache.length[:, None] + torch.arange(int(count.max()))).clamp(max=ids.shape[1] - 1)
        got = decoder.extend(cache, ids.gather(1, at), count)
        scale = want.abs().max()
        assert (got - want[rows, cache.length - 1]).abs().max() < 1e-5 * scale
    kept = torch.tensor([3, 1])
    small = cache.select(kept, room=64)
    nxt = ids[kept].gather(1, small.length[:, None])
    got = decoder.extend(small, nxt, torch.ones(2, dtype=torch.long))
    assert (got - want[kept, small.length - 1]).abs().max() < 1e-5 * scale


def test_padding_on_the_left_changes_nothing(policy):
    model, _ = policy
    ids = sequences()
    padded = torch.nn.functional.pad(ids, (3, 0))
    with torch.no_grad():
        got = model(padded, attention_mask=(padded > 0).long()).logits[:, 3:]
        want = model(ids).logits
    assert (got - want).abs().max() < 1e-5 * want.abs().max()


def test_generate_with_a_cache_is_generate_without(policy):
    model, _ = policy
    ids = sequences(B=3, T=6)
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    assert torch.equal(
        model.generate(ids, **options), model.generate(ids, use_cache=False, **options)
    )


def test_a_filled_cache_needs_the_tokens_before(policy):
    model, _ = policy
    cache = model(sequences(), use_cache=True).cache
    with pytest.raises(ConfigError, match="previous_ids"):
        model(sequences(T=1), cache=cache)


def test_adapters_are_merged_into_the_decoder(policy):
    from peft import LoraConfig, get_peft_model

    base, _ = policy
    model = SmearForCausalLM(base.config)
    model.load_state_dict(base.state_dict())
    lora = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(model.eval(), lora)
    ids = sequences()
    count = torch.full((len(ids),), ids.shape[1])
    with torch.no_grad():
        want = model(ids).logits[:, -1]
        plain = base(ids).logits[:, -1]
    decoder = Decoder(model)
    got = decoder.extend(decoder.cache(len(ids), 32), ids, count)
    assert (got - want).abs().max() < 1e-4
    with model.disable_adapter():
        decoder = Decoder(model)
    got = decoder.extend(decoder.cache(len(ids), 32), ids, count)
    assert (got - plain).abs().max() < 1e-4 < (want - plain).abs().max()


def test_another_model_is_refused():
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny = LlamaConfig(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    with pytest.raises(ConfigError, match="SmearForCausalLM"):
        Decoder(LlamaForCausalLM(tiny))


def test_tokenizer_survives_saving(tmp_path):
    tokenizer = build_tokenizer(vocabulary())
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again.convert_ids_to_tokens(range(5)) == list(SPECIALS)
    words = Words(again)
    text = "cancel chair d4 o11"
    assert words.text(words.action(text)) == text
    assert again(text, add_special_tokens=False)["input_ids"] == words.ids(text)


def test_unknown_words_and_bad_vocabularies_are_named(policy):
    _, words = policy
    with pytest.raises(ConfigError, match="'zebra'"):
        words.ids("cancel zebra")
    with pytest.raises(ConfigError, match="'two words'"):
        build_tokenizer(["two words"])


@pytest.fixture(scope="module")
def episodes(policy):
    model, words = policy
    world = OrdersDesk()
    tasks = [t for t in world.tasks("dev")[:40:4] for _ in range(3)]
    return tasks, roll(model, words, world, tasks, range(len(tasks)))


def test_logprobs_are_those_of_transformers(policy, episodes):
    model, _ = policy
    for s in episodes[1]:
        ids = torch.tensor([s.prompt_ids + s.completion_ids])
        with torch.no_grad():
            logp = model(ids).logits[0, len(s.prompt_ids) - 1 : -1].log_softmax(-1)
        want = logp.gather(1, torch.tensor(s.completion_ids)[:, None])[:, 0]
        mask = torch.tensor(s.action_mask, dtype=torch.bool)
        assert (torch.tensor(s.logprobs) - want)[mask].abs().max() < 1e-5
        assert not torch.tensor(s.logprobs)[~mask].any()


def test_tokens_are_counted_by_step_and_texts_are_theirs(policy, episodes):
    _, words = policy
    for s in episodes[1]:
        n = np.bincount(s.step_ids)[1:]
        assert n.tolist() == [step.tokens for step in s.trajectory.steps]
        assert s.step_ids[0] == 1
        assert s.step_ids[-1] == len(n)
        for j, step in enumerate(s.trajectory.steps, start=1):
            own = [t for t, k in zip(s.completion_ids, s.step_ids, strict=True) if k == j]
            assert words.text(own) == step.text
        runs = np.flatnonzero(np.diff([0, *s.action_mask]) == 1)
        assert len(runs) == len(s.trajectory)  # one run of ones a step: glue between any two


def test_an_episode_does_not_depend_on_its_neighbours(policy, episodes):
    model, words = policy
    tasks, made = episodes
    part = slice(5, 12)
    again = roll(model, words, OrdersDesk(), tasks[part], range(5, 12), rows=3)
    assert [s.completion_ids for s in again] == [s.completion_ids for s in made[part]]
    assert [s.trajectory.outcome for s in again] == [s.trajectory.outcome for s in made[part]]


def test_limits_cut_with_exact_lengths(policy):
    model, words = policy
    world = OrdersDesk()
    tasks = world.tasks("dev")[-6:]
    limits = Limits(action=3, completion=40)
    for s in roll(model, words, world, tasks, range(6), temperature=3.0, limits=limits):
        assert len(s.completion_ids) <= 40
        assert max(step.tokens for step in s.trajectory.steps) <= 3
        assert s.trajectory.termination in ("length", "finished")
    with pytest.raises(ConfigError, match="temperature"):
        roll(model, words, world, tasks, range(6), temperature=0)
    with pytest.raises(ConfigError, match="as many seeds"):
        roll(model, words, world, tasks, range(5))


def test_warm_up_is_deterministic_and_cached(tmp_path):
    config = WarmUp(seed=3, steps=10, batch=4)
    first = warm_up(config, tmp_path / "a")
    second = warm_up(config, tmp_path / "b")
    assert first.name == second.name
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert warm_up(config, tmp_path / "a") == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    assert recipe_hash(config) != recipe_hash(replace(config, lr=1e-3))


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_shipped_policies_are_those_of_their_recipes(name):
    record = json.loads((SHIPPED / name / "warmup.json").read_text())
    assert record["recipe_hash"] == recipe_hash(CHECKPOINTS[name])
    assert (SHIPPED / name / "model.safetensors").stat().st_size < 2.2e6


def test_shipped_policies_can_be_trained_from():
    """They succeed on some rollouts and fail on others; the weak one is weaker."""
    world = OrdersDesk()
    tasks = [t for t in world.tasks("dev")[::2] for _ in range(2)]
    rate = {}
    for name in CHECKPOINTS:
        model, words = open_policy(name)
        made = roll(model, words, world, tasks, range(len(tasks)))
        rate[name] = np.mean([s.trajectory.outcome for s in made])
    assert 0.1 < rate["weak"] < rate["main"] < 0.6


def test_a_missing_policy_is_named(tmp_path):
    with pytest.raises(ConfigError, match="'other'"):
        checkpoint("other")
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_policy(tmp_path)


@pytest.mark.slow
def test_rebuilding_gives_the_shipped_policy(tmp_path):
    built = load_policy(warm_up(CHECKPOINTS["main"], tmp_path))
    shipped = load_policy(checkpoint("main"))
    for (name, a), b in zip(built.state_dict().items(), shipped.state_dict().values(), strict=True):
        assert torch.allclose(a, b, atol=1e-3), name  # another processor, another rounding


def test_configuration_can_be_changed():
    assert tiny_config(50, num_hidden_layers=1).num_hidden_layers == 1


def test_the_command_makes_a_policy_once(tmp_path):
    from typer.testing import CliRunner

    from rubricnb.cli import app

    arguments = ["warm-up", "weak", "--steps", "10", "--faults", "2", "-o", str(tmp_path)]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    folder = tmp_path / first.stdout.split("/")[-1].strip()
    assert json.loads((folder / "warmup.json").read_text())["recipe"]["faults"] == 2.0
    assert "step 10 of 10" in first.stderr
    assert "step" not in CliRunner().invoke(app, arguments).stderr
    assert isinstance(CliRunner().invoke(app, ["warm-up", "strong"]).exception, ConfigError)
