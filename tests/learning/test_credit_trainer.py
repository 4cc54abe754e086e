"""The trainer puts step credit where trl puts one advantage, and changes nothing else."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig

from rubricnb.credit import CreditBatch
from rubricnb.errors import ConfigError, RubricNBError
from rubricnb.rubric import Criterion, FailedJudgement, GradedGroup, Label, Rubric, Verdict
from rubricnb.train.credit_trainer import CreditGRPOTrainer, _counts, _step_ids, spread
from rubricnb.train.transcripts import trajectory_of
from rubricnb.trajectory import Step, Task, Trajectory
from rubricnb.worlds import offline_judge
from tests.learning.chat_models import word_tokenizer

WORDS = ["<pad>", "<end>", *"abcdefgh"]
G = 4


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer(WORDS)


def model(seed=0):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


# Two steps with glue between: policy tokens 2 + n, glue 2.
SHAPES = [(2, 3), (1, 4), (3, 2), (2, 2)]


def rollouts(prompts, trainer):
    """Fixed rollouts, the same for every trainer: only the credit differs."""
    rng = np.random.default_rng(5)
    out = {k: [] for k in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "step_ids")} | {
        "trajectory": []
    }
    for i, prompt in enumerate(prompts):
        a, b = SHAPES[i % len(SHAPES)]
        steps = [1] * a + [0] * 2 + [2] * b
        ids = rng.integers(2, len(WORDS), len(steps)).tolist()
        ids[-1] = 1
        out["prompt_ids"].append([2, 3])
        out["completion_ids"].append(ids)
        out["logprobs"].append([0.0] * len(ids))
        out["env_mask"].append([int(s > 0) for s in steps])
        out["step_ids"].append(steps)
        task = Task(prompt, prompt)
        made = (Step("x", tokens=a), Step("y", tokens=b))
        out["trajectory"].append(Trajectory(f"{prompt}/{i}", task, made))
    return out


def trainer(tmp_path, tokenizer, grader, *, cls=CreditGRPOTrainer, steps=1, config=None, **options):
    args = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=2 * G,
        num_generations=G,
        max_completion_length=16,
        max_steps=steps,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        beta=0.0,
        loss_type="dapo",
        bf16=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="steps",
        logging_steps=1,
        disable_tqdm=True,
        optim="sgd",
        max_grad_norm=1e9,
        **(config or {}),
    )
    data = Dataset.from_list([{"prompt": "a b"}, {"prompt": "c d"}])
    return cls(
        model=model(),
        args=args,
        train_dataset=data,
        processing_class=tokenizer,
        rollout_func=rollouts,
        **({"grader": grader} if grader else {}),
        **options,
    )


def weights(t):
    return torch.cat([p.detach().flatten() for p in t.model.parameters()])


def rewards(groups):
    return [np.arange(len(g), dtype=float) for g in groups]


def plain_advantage(reward, eps):
    return (reward - reward.mean()) / (reward.std(ddof=1) + eps)


def test_credit_proportional_to_length_is_plain_grpo(tmp_path, tokenizer):
    """With w_j proportional to n_j every token gets A: the parameters equal trl's own."""
    from trl import GRPOTrainer

    def by_length(batch: CreditBatch):
        A = batch.advantage(eps=1e-4)  # trl's epsilon
        n = batch.tokens_GS
        w = n / n.sum(axis=1, keepdims=True)
        return A[:, None] * n.sum(axis=1, keepdims=True) * np.divide(w, n, where=n > 0, out=0 * n)

    ours = trainer(tmp_path / "a", tokenizer, rewards, rule=by_length)
    start = weights(ours)
    ours.train()

    def reward(prompts, **kwargs):
        return [float(i % G) for i in range(len(prompts))]

    theirs = trainer(tmp_path / "b", tokenizer, None, cls=GRPOTrainer, reward_funcs=[reward])
    theirs.train()
    assert (weights(ours) - start).abs().max() > 1e-4
    assert torch.allclose(weights(ours), weights(theirs), atol=1e-7)


def test_one_hot_credit_gives_the_hand_computed_gradient(tmp_path, tokenizer):
    """Only the second step of the first rollout is pushed: dL = -a / N_batch * d sum log pi."""

    def one_hot(batch):
        credit = np.zeros_like(batch.tokens_GS)
        credit[0, 1] = 2.5
        return credit

    t = trainer(tmp_path, tokenizer, rewards, rule=one_hot)
    before = weights(t)
    seen = []
    original = t._generate_and_score_completions
    t._generate_and_score_completions = lambda x: seen.append(original(x)) or seen[-1]
    t.train()
    (batch,) = seen
    mask = batch["completion_mask"] * batch["tool_mask"]
    row = int((batch["advantages"] != 0).any(dim=1).nonzero())
    assert (batch["advantages"] != 0).sum() == SHAPES[0][1]

    m = model().train()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)[row : row + 1]
    logp = torch.log_softmax(m(ids).logits[:, :-1], -1).gather(-1, ids[:, 1:, None])[0, :, 0]
    second = torch.zeros_like(logp)
    second[-batch["completion_ids"].shape[1] :] = batch["advantages"][row] != 0
    (-(2.5 / mask.sum()) * (logp * second).sum()).backward()
    grad = torch.cat([p.grad.flatten() for p in m.parameters()])
    assert torch.allclose(weights(t) - before, -1e-2 * grad, atol=1e-6)


def graded(group, fail=()):
    """Step 1 fails on odd rollouts; judgements in ``fail`` are failed ones."""
    rows = []
    for g in range(len(group)):
        label = Label.FAIL if g % 2 else Label.PASS
        rows.append((Verdict("a", label, steps=(1,)), Verdict("b", Label.PASS, steps=(2,))))
    failures = tuple("unreadable" if g in fail else "" for g in range(len(group)))
    rows = [
        tuple(FailedJudgement(c) for c in "ab") if f else r
        for r, f in zip(rows, failures, strict=True)
    ]
    rubric = Rubric((Criterion("a", "first"), Criterion("b", "second")))
    return GradedGroup(group, rubric, tuple(rows), failures)


def advantages_of(t):
    seen = []
    original = t._generate_and_score_completions
    t._generate_and_score_completions = lambda x: seen.append(original(x)) or seen[-1]
    t.train()
    return seen[0]


def test_verdicts_become_credit_that_conserves_the_push(tmp_path, tokenizer):
    steps = []
    t = trainer(tmp_path, tokenizer, lambda gs: [graded(g) for g in gs], observer=steps.append)
    advantages_of(t)
    (seen,) = steps
    A = seen.batch.advantage()
    assert np.allclose(
        (seen.credit_GS * seen.batch.tokens_GS).sum(1), A * seen.batch.tokens_GS.sum(1)
    )
    assert np.abs(A).max() > 0.5
    assert seen.batch.tokens_GS[:4].tolist() == [list(map(float, s)) for s in SHAPES]


def test_a_failed_judgement_leaves_the_group(tmp_path, tokenizer):
    steps = []
    t = trainer(
        tmp_path, tokenizer, lambda gs: [graded(g, fail={3}) for g in gs], observer=steps.append
    )
    out = advantages_of(t)
    seen = steps[0]
    assert np.isnan(seen.batch.reward_G[3])
    assert (seen.credit_GS[3] == 0).all()
    rest = np.array([1.0, -1.0, 1.0])
    assert np.allclose(seen.batch.advantage()[:3], plain_advantage(rest, 1e-6))
    assert torch.isfinite(out["advantages"]).all()


def test_a_grader_that_fails_costs_its_groups_an_update_and_is_reported(tmp_path, tokenizer):
    def broken(groups):
        raise TimeoutError("no answer")

    steps = []
    t = trainer(tmp_path, tokenizer, broken, observer=steps.append)
    before = weights(t)
    out = advantages_of(t)
    assert (out["advantages"] == 0).all()
    assert torch.equal(before, weights(t))
    assert steps[0].batch is None
    assert steps[0].errors == dict.fromkeys(range(2), "TimeoutError: no answer")


def test_one_ungraded_group_does_not_cost_the_others_theirs(tmp_path, tokenizer):
    """A rubric that failed as a whole (no criteria) gives no update to its group alone."""

    def half(groups):
        empty = GradedGroup(groups[1], Rubric(()), ((),) * G, ("no rubric",) * G)
        return [graded(groups[0]), empty]

    steps = []
    t = trainer(tmp_path, tokenizer, half, observer=steps.append)
    advantages_of(t)
    assert np.abs(steps[0].credit_GS[:G]).sum() > 0
    assert np.abs(steps[0].credit_GS[G:]).sum() == 0


def test_an_error_that_would_meet_every_group_ends_the_training(tmp_path, tokenizer):
    def broke(groups):
        raise RubricNBError("budget used up")

    with pytest.raises(RubricNBError, match="budget used up"):
        trainer(tmp_path, tokenizer, broke).train()


def test_wrong_arguments_are_named(tmp_path, tokenizer):
    with pytest.raises(ConfigError, match="'dracco'"):
        trainer(tmp_path, tokenizer, rewards, rule="dracco")
    with pytest.raises(ConfigError, match="a grader or a judge; got none"):
        trainer(tmp_path, tokenizer, None)
    with pytest.raises(ConfigError, match="a grader or a judge; got both"):
        trainer(tmp_path, tokenizer, rewards, judge=offline_judge())
    with pytest.raises(ConfigError, match="top_entropy_quantile"):
        trainer(tmp_path, tokenizer, rewards, config={"top_entropy_quantile": 0.2})


def test_reward_functions_are_logged_and_push_nothing(tmp_path, tokenizer):
    plain = trainer(tmp_path / "a", tokenizer, rewards, rule="grpo")
    plain.train()

    def mine(prompts, **columns):
        return [float("nan") if i % 3 == 0 else 7.0 * i for i in range(len(prompts))]

    with pytest.warns(UserWarning, match="logged and push nothing here: mine"):
        both = trainer(
            tmp_path / "b", tokenizer, rewards, rule="grpo", reward_funcs=mine,
            config={"reward_weights": [5.0]},
        )  # fmt: skip
    both.train()
    assert torch.equal(weights(plain), weights(both))
    (row,) = [r for r in both.state.log_history if "loss" in r]
    assert row["rewards/mine/mean"] == pytest.approx(np.mean([7, 14, 28, 35, 49]))
    assert row["reward"] == pytest.approx(1.5)  # the grader's alone


def test_truncation_is_counted_before_credit(tmp_path, tokenizer):
    """Tokens that the loss does not count are not in N, and what is left conserves the push."""
    mask = torch.tensor([[1, 1, 0, 1, 1, 0]])
    assert _step_ids(mask, [[1, 1, 0, 2, 2, 2]]).tolist() == [[1, 1, 0, 2, 2, 0]]
    assert _counts(_step_ids(mask, [[1, 1, 0, 2, 2, 2]]))[0].tolist() == [2, 2]
    assert _step_ids(mask, None).tolist() == [[1, 1, 0, 2, 2, 0]]
    assert spread(np.array([[0.5, -1.0]]), _step_ids(mask, None)).tolist() == [
        [0.5, 0.5, 0.0, -1.0, -1.0, 0.0]
    ]


def test_chat_messages_become_steps():
    prompt = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    call = {"function": {"name": "f", "arguments": {"x": 1}}, "id": "1"}
    t = trajectory_of(
        prompt,
        [
            {"role": "assistant", "content": "hi", "tool_calls": [call]},
            {"role": "tool", "content": "r", "tool_call_id": "1"},
            {"role": "assistant", "content": [{"type": "text", "text": "bye"}]},
        ],
        0,
    )
    assert (t.task.system, t.task.prompt, len(t)) == ("s", "u", 2)
    assert t.steps[0].calls[0].arguments == '{"x": 1}'
    assert t.steps[0].observations[0].text == "r"
    assert t.steps[1].text == "bye"
    assert trajectory_of("p", "c", 1).steps == (Step("c"),)
