"""The table of rules is found by trial, and every law is seen to fail on a broken rule."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rubricnb import credit
from rubricnb.credit import RULES, CreditBatch, grpo
from rubricnb.credit.laws import (
    comparison,
    conserves,
    judge_calls,
    needs_outcome,
    random_batch,
    sign_safe,
)

pytestmark = pytest.mark.filterwarnings("ignore:groups with fewer")


@pytest.fixture(scope="module")
def table():
    return {row["rule"]: row for row in comparison(RULES)}


def test_the_table_has_every_rule(table):
    assert list(table) == list(RULES)
    wanted = {"grpo", "draco", "triage", "trca", "arco", "srar", "gigpo", "salt", "rtmc"}
    assert wanted <= set(table)


# What the literature says of each rule: conserves a rollout's push, is sign-safe, needs outcomes.
PUBLISHED = {
    "grpo": (True, True, True),
    "draco": (True, True, False),
    "triage": (False, False, True),
    "arco": (False, False, True),
    "srar": (False, False, True),
    "trca": (False, False, True),
    "gigpo": (False, False, True),
    "salt": (False, False, True),
    "rtmc": (False, False, True),
}


@pytest.mark.parametrize("rule", PUBLISHED)
def test_the_trials_agree_with_the_literature(table, rule):
    row = table[rule]
    got = (row["conserves"] == "rollout", row["sign_safe"], row["needs_outcome"])
    assert got == PUBLISHED[rule]


def test_what_the_trials_say_beyond_it(table):
    assert table["salt"]["conserves"] == "group by step"
    assert table["gigpo"]["conserves"] == "group by step"
    assert table["neutral"]["conserves"] == "step type"
    assert table["triage"]["conserves"] == table["rtmc"]["conserves"] == "no"
    assert table["draco"]["calls_per_rollout"] == 3.33
    assert judge_calls(6, 3, 15)["draco"] == pytest.approx(32 / 6)


def test_needing_the_outcome_is_a_choice_of_options():
    b = random_batch(np.random.default_rng(0))
    assert not needs_outcome(grpo, b)
    assert needs_outcome(lambda x: grpo(x, base="outcome"), b)
    assert not needs_outcome(lambda x: RULES["trca"](x, base="none"), b)
    without = CreditBatch(**{**vars(b), "score_GS": None})
    assert not needs_outcome(grpo, without)


def test_options_change_the_laws():
    b = random_batch(np.random.default_rng(1))
    draco = RULES["draco"]
    assert "rollout" in conserves(lambda x: draco(x, weights="signed"), b, "rubric")
    assert not sign_safe(lambda x: draco(x, weights="signed", signed_scale=4.0), b, "rubric")
    assert "rollout" not in conserves(lambda x: draco(x, max_token_mult=1.0), b, "rubric")
    assert "rollout" not in conserves(lambda x: -draco(x), b, "rubric")


# Each rule is broken by one edit of its source, and the law named must notice. ------------------
def _batch(seed=11):
    return random_batch(np.random.default_rng(seed))


def _equal_rewards(m):
    return (m.group_advantage([0.1] * 7, eps=0) == 0).all()


def _groups_apart(m):
    R = np.array([1.0, 0, 2, 5, 9])
    A = m.group_advantage(R, group_P=[2, 3])
    return np.allclose(A[:2], m.group_advantage(R[:2])) and np.isclose(A[:2].sum(), 0)


def _ungraded(m):
    A = m.group_advantage([1.0, 0.0, np.nan])
    return np.allclose(A[:2], m.group_advantage([1.0, 0.0])) and A[2] == 0


def _reward_range(m):
    R = m.rubric_reward([[1, 1, 0], [-1, np.nan, -1]])
    return R.tolist() == [1, -1]


def _dropout(m):
    return m.discriminative([[1, 0, -1, np.nan]]).tolist() == [False, False, True, False]


def _grpo_push(m):
    return "rollout" in conserves(m.grpo, _batch(), "rubric")


def _draco_push(m):
    return "rollout" in conserves(m.draco_rule, _batch(), "rubric")


def _triage_whitened(m):
    b = CreditBatch(**{**vars(_batch()), "role_GS": np.where(_batch().live_GS, "decisive", "")})
    role = np.where(np.arange(6) % 2, "regression", b.role_GS)
    b = CreditBatch(**{**vars(b), "role_GS": role})
    a = m.triage(b)[b.live_GS]
    return np.isclose(a.mean(), 0) and np.isclose(a.std(), 1, atol=1e-6)


def _triage_null(m):
    a = m.triage(_batch(), lam=0.0, whiten=False)
    return np.allclose(a, grpo(_batch(), base="outcome"))


def _trca_bounds(m):
    rng = np.random.default_rng(0)
    _, B = m.transition_rewards(
        rng.random((50, 8, 5)) < 0.4, rng.choice(["Ev", "Ex", "Inv"], (50, 5))
    )
    return (B.sum(axis=1) <= 2 + 1e-9).all() and (B >= 0).all()


def _trca_push(m):
    return "group by step" in conserves(m.trca, _batch(), "outcome")


def _arco_buckets(m):
    b = _batch()
    a = m.arco(b)
    last = b.live_GS & (np.cumsum(b.live_GS[:, ::-1], axis=1)[:, ::-1] == 1)
    sums = [a[last].sum(), *(a[:, k][(b.live_GS & ~last)[:, k]].sum() for k in range(4))]
    return np.allclose(sums, 0)


def _srar_positions(m):
    b = _batch()
    b = CreditBatch(**{**vars(b), "cite_GKS": b.cite_GKS | (np.arange(6) == 0)})
    step = m.srar(b) - grpo(b, base="outcome")
    return all(np.allclose(step[b.group_G == g].sum(axis=0), 0) for g in range(3))


def _gigpo_push(m):
    return "group by step" in conserves(m.gigpo, _batch(), "outcome")


def _salt_push(m):
    return "group by step" in conserves(m.salt, _batch(), "outcome")


def _rtmc_states(m):
    b = _batch()
    a = m.rtmc(b, prior=0, visits="every")
    cells = [
        a[(b.group_G == g)[:, None] & (b.state_GS == s) & b.live_GS].sum()
        for g in range(3)
        for s in range(3)
    ]
    return np.allclose(cells, 0)


def _rar_rescaled(m):
    return np.allclose(m.rar(_batch()), grpo(_batch()), atol=1e-4)


def _means_gone(m):
    """No key keeps a push once its mean is off."""
    rng = np.random.default_rng(4)
    n, a = rng.integers(1, 9, (5, 6)).astype(float), rng.normal(size=(5, 6))
    key = rng.integers(0, 4, (5, 6))
    out = m.less_means(a, n, key, np.ones((5, 6), dtype=bool))
    return np.abs(np.bincount(key.ravel(), (n * out).ravel())).max() < 1e-9


def _neutral_types(m):
    def rule(b):
        return m.type_neutral(b, RULES["draco"](b))

    return "step type" in conserves(rule, _batch(), "rubric")


MUTANTS = [
    ("common", "(n > 1) & (high > low)", "n > 1", _equal_rewards),
    ("common", "/ np.maximum(n, 1))[b]", "/ len(x))[b]", _groups_apart),
    ("common", "graded = np.isfinite(value_N)", "graded = np.ones(len(value_N), bool)", _ungraded),
    ("common", "(p - f) / np.maximum(p + f, 1)", "(p - f) / v.shape[1]", _reward_range),
    ("common", "(p + f == 0) & ", "", _reward_range),
    ("common", "== -1).any(axis=0)", "!= 1).any(axis=0)", _dropout),
    ("grpo", "A[:, None], 0.0)", "A[:, None] * batch.tokens_GS, 0.0)", _grpo_push),
    ("draco", "* push[:, None]", "* push.mean()", _draco_push),
    ("draco", "share / np.where(active, n, 1.0)", "share", _draco_push),
    ("triage", "(a - x.mean()) / ", "a / ", _triage_whitened),
    ("triage", "x.std(ddof=whiten_ddof)", "x.var(ddof=whiten_ddof)", _triage_whitened),
    ("triage", 'number("lam", lam, 0) * delta', "delta", _triage_null),
    ("trca", "np.maximum.accumulate(O, axis=1)", "np.cumsum(O, axis=1)", _trca_bounds),
    ("trca", "np.maximum(of.sum(axis=1), 1)[:, None]", "1.0", _trca_bounds),
    ("trca", "joint_key(\n", "(lambda _, s: joint_key(s))(\n", _trca_push),
    ("arco", "leave_one_out else n[key]\n", "leave_one_out else n[key] + 1\n", _arco_buckets),
    ("arco", "np.where(last_live(live), 0, rank)", "rank", _arco_buckets),
    ("srar", "np.arange(d.shape[1])", "np.zeros(d.shape[1])", _srar_positions),
    ("gigpo", "joint_key(group, ", "joint_key(group * 0, ", _gigpo_push),
    ("salt", "total[key] / n[key])", "total[key])", _salt_push),
    ("rtmc", "/ (n[key] + prior)", "/ (n[key] + prior + 1)", _rtmc_states),
    ("rtmc", "out[used] = Q - V", "out[used] = Q", _rtmc_states),
    ("rar", "(w * (v == 1))", "(w * (v == -1))", _rar_rescaled),
    ("rar", "np.abs(np.nan_to_num(v)) * w", "w + 0.0", _rar_rescaled),
    ("neutral", "plain + excess", "excess", _neutral_types),
    ("neutral", "plain + excess", "a + excess", _neutral_types),
    ("common", "a - mean[key]", "a + mean[key]", _means_gone),
    ("common", "np.bincount(key, n * a)", "np.bincount(key, a)", _means_gone),
]  # fmt: skip
LAWS = sorted({(name, law) for name, *_, law in MUTANTS}, key=lambda x: x[1].__name__)


@pytest.mark.parametrize(("name", "law"), LAWS, ids=lambda v: getattr(v, "__name__", v))
def test_the_rule_keeps_its_law(name, law):
    assert law(importlib.import_module(f"rubricnb.credit.{name}"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "old", "new", "law"), MUTANTS, ids=[m[0] + m[3].__name__ for m in MUTANTS]
)
def test_the_broken_rule_breaks_its_law(name, old, new, law, monkeypatch):
    assert not law(mutant(name, old, new, monkeypatch))


def mutant(name, old, new, monkeypatch):
    """The rule's module with one edit of its source."""
    source = Path(credit.__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    assert source.count(old) >= 1, f"want {old!r} in {name}.py; got none: renew the mutant"
    module = ModuleType(f"rubricnb.credit._mutant_{name}")
    module.__package__ = "rubricnb.credit"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source.replace(old, new), "<mutant>", "exec"), module.__dict__)
    return module
