"""Each rule's worked example, stated laws, options and degenerate cases."""

import numpy as np
import pytest

from rubricnb.credit import (
    RULES,
    CreditBatch,
    arco,
    gigpo,
    grpo,
    neutral,
    rar,
    rar_reward,
    rtmc,
    rubric_reward,
    salt,
    srar,
    trca,
    triage,
    type_neutral,
)
from rubricnb.credit.arco import decompose
from rubricnb.credit.laws import random_batch
from rubricnb.credit.trca import transition_rewards
from rubricnb.credit.triage import (
    conflict_cells,
    correction_gain,
    judged_role_means,
    role_means,
)
from rubricnb.errors import CreditError

H = 0.5**0.5  # advantage of two rollouts with outcomes 1 and 0, ddof 1, no eps
NAN = float("nan")
pytestmark = pytest.mark.filterwarnings("ignore:groups with fewer")


def two(**fields):
    """Two rollouts of two steps with the outcomes 1 and 0."""
    return CreditBatch([[2, 4], [3, 3]], outcome_G=[1.0, 0.0], **fields)


# TRIAGE ------------------------------------------------------------------------------------------
ROLES = [["decisive", "regression"], ["exploration", "invalid"]]


def test_triage_by_hand():
    # Before whitening .9071 .6071 -.6071 -.7071: mean .05, population std .7159.
    got = triage(two(role_GS=ROLES), eps=0)
    np.testing.assert_allclose(got, [[1.1973, 0.7782], [-0.9179, -1.0576]], atol=2e-4)
    plain = triage(two(role_GS=ROLES), eps=0, whiten=False)
    np.testing.assert_allclose(plain, [[H + 0.2, H - 0.1], [-H + 0.1, -H]])
    ablated = triage(
        two(role_GS=ROLES),
        c={"decisive": 1.0, "exploration": 0.0, "no_progress": -0.1, "regression": 0.0},
        eps=0,
        whiten=False,
    )
    np.testing.assert_allclose(ablated, [[H + 0.2, H], [-H, -H]])


def test_triage_corrects_groups_of_equal_outcomes():
    b = CreditBatch([[2], [3]], outcome_G=[0.0, 0.0], role_GS=[["decisive"], ["no_progress"]])
    np.testing.assert_allclose(triage(b, whiten=False), [[0.2], [-0.02]])
    same = CreditBatch([[2], [3]], outcome_G=[0.0, 0.0], role_GS=[["decisive"], ["decisive"]])
    assert triage(same).tolist() == [[0.0], [0.0]]


def test_triage_outside_of_segments():
    b = two(role_GS=[["decisive", ""], ["regression", "exploration"]])
    got = triage(b, eps=0)
    inside = np.array([H + 0.2, -H - 0.1, -H + 0.1])
    np.testing.assert_allclose(got[0, 1], (H - inside.mean()) / inside.std(), rtol=1e-6)
    assert triage(b, outside="mask")[0, 1] == 0
    none = two(role_GS=np.full((2, 2), ""))
    np.testing.assert_allclose(triage(none, eps=0), [[H, H], [-H, -H]])
    same = CreditBatch([[2, 1]], advantage_G=[0.5], role_GS=[["decisive", ""]])
    np.testing.assert_allclose(triage(same, base="rubric"), [[0.0, -0.2]])


def test_triage_by_score_and_without_an_outcome():
    b = CreditBatch(
        [[2, 1], [3, 1], [1, 1]], outcome_G=[1, 0, NAN], score_GS=[[1, NAN], [-0.5, 0], [1, 1]]
    )
    got = triage(b, signal="score", whiten=False, eps=0, lam=0.4)
    np.testing.assert_allclose(got, [[H + 0.4, H], [-H - 0.2, -H], [0, 0]])


def test_triage_mathematics():
    gain = correction_gain([1.0, 0.0, -2.0], [1.0, 0.5, -0.5], centred=False)
    assert gain["helps"]
    assert gain["cross"] == pytest.approx(2 / 3)
    assert gain["square"] == pytest.approx(1.5 / 3)
    assert gain["best_lam"] == pytest.approx(4 / 3)
    # The gain is what it says: the drop of the mean squared error at the best lam.
    delta, c = np.array([1.0, 0.0, -2.0]), np.array([1.0, 0.5, -0.5])
    drop = (delta**2).mean() - ((delta - gain["best_lam"] * c) ** 2).mean()
    assert gain["best_gain"] == pytest.approx(drop)
    at_limit = (delta**2).mean() - ((delta - gain["limit_lam"] * c) ** 2).mean()
    assert at_limit == pytest.approx(0)
    assert not correction_gain([1.0, -1.0], [-1.0, 1.0])["helps"]
    assert correction_gain([1.0, 2.0], [0.5, 0.5])["best_lam"] == 0
    assert correction_gain([], [])["cross"] == 0
    assert role_means([2.0, 4.0], ["decisive", "decisive"]) == {"decisive": 3.0}
    assert judged_role_means([1.0], [[0.0, 2.0]]).tolist() == [0.0, 1.0]
    cells = conflict_cells(two(role_GS=ROLES))
    assert cells["exploration"] == {"success": 0, "failure": 1}
    assert cells["regression"] == {"success": 1, "failure": 0}


# TRCA --------------------------------------------------------------------------------------------
def test_trca_five_transitions():
    # Items: evidence A, evidence B, invalid move, on the scale where F is +-1 and B is 0 or 1.
    # Found A, invalid, A again, found B, invalid again.
    active = [[[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]
    r = {"Ev": 2.0, "Ex": 1.0, "Inv": 1.0}
    F, B = transition_rewards(active, [["Ev", "Ev", "Inv"]], r=r)
    assert F.tolist() == [[1, -1, 1, 1, -1]]
    assert B.tolist() == [[1, 0, 0, 1, 0]]
    # Repetition is not rewarded by B, yet keeps (1 - lam) F > 0.
    np.testing.assert_allclose(0.2 * F + 0.8 * B, [[1.0, -0.2, 0.2, 1.0, -0.2]])


def test_trca_bounds():
    rng = np.random.default_rng(0)
    active = rng.random((200, 8, 5)) < 0.4
    item = rng.choice(["Ev", "Ex", "Inv", ""], (200, 5))
    r = {"Ev": 0.7, "Ex": 1.3, "Inv": 0.9}
    F, B = transition_rewards(active, item, r=r)
    assert (B >= -1e-12).all()
    assert (B.sum(axis=1) <= 2.0 + 1e-9).all()
    assert (F <= 2.0 + 1e-9).all()
    assert (F >= -0.9 - 1e-9).all()
    # Coverage in another order is worth the same in sum.
    np.testing.assert_allclose(
        B.sum(axis=1), transition_rewards(active[:, ::-1], item, r=r)[1].sum(axis=1)
    )
    assert transition_rewards(np.zeros((1, 0, 2)), [["Ev", "Ex"]])[1].shape == (1, 0)


def test_trca_by_hand():
    # Both start at "s"; only the first finds the evidence, at once. gamma .5, lam .8, r = 1:
    # its r = 1 (F) * .2 + 1 (B) * .8 = 1 at step 1; outcome at step 2.
    b = two(
        active_GSJ=[[[1], [0]], [[0], [0]]],
        item_GJ=[["Ev"], ["Ev"]],
        state_GS=[["s", "x"], ["s", "y"]],
    )
    got = trca(b, gamma=0.5, eps=0)  # R at "s": 1 + .5 against 0; lone contexts x and y get 0
    np.testing.assert_allclose(got, [[H + H, H], [-H - H, -H]])
    items = {"active_GSJ": b.active_GSJ, "item_GJ": b.item_GJ, "state_GS": b.state_GS}
    failed = CreditBatch(b.tokens_GS, **items)
    np.testing.assert_allclose(trca(failed, base="none", eps=0), [[H, 0], [-H, 0]])
    both = trca(b, gamma=0.5, eps=0, episode="env+rubric", step_weight=0.0)
    np.testing.assert_allclose(both, [[H, H], [-H, -H]])
    env = two(**items, env_GS=[[0, 0], [3, 9]])
    assert trca(env, step_weight=0.0, eps=0)[1, 0] == pytest.approx(H)


def test_trca_without_items_or_shared_contexts_is_grpo():
    b = random_batch(np.random.default_rng(2))
    alone = CreditBatch(
        b.tokens_GS,
        group_G=b.group_G,
        outcome_G=b.outcome_G,
        active_GSJ=np.zeros_like(b.active_GSJ),
        item_GJ=b.item_GJ,
        state_GS=np.arange(b.tokens_GS.size).reshape(b.tokens_GS.shape),
    )
    np.testing.assert_allclose(trca(alone), grpo(alone, base="outcome"))


# ARCO --------------------------------------------------------------------------------------------
def test_arco_by_hand():
    # G: .5+.5=1, .5 | 0+1=1, 1 | .25. Buckets: position 1 {1, 1}; terminal {.5, 1, .25}.
    b = CreditBatch([[1, 1], [1, 1], [1, 0]], score_GS=[[0.5, 0.5], [0, 1], [0.25, NAN]])
    mean = 1.75 / 3
    want = [[0, 0.5 * (0.5 - mean)], [0, 0.5 * (1 - mean)], [0.5 * (0.25 - mean), 0]]
    np.testing.assert_allclose(arco(b), want, atol=1e-12)
    loo = arco(b, leave_one_out=True, scale=1.0)
    np.testing.assert_allclose(loo, [[0, 0.5 - 0.625], [0, 1 - 0.375], [0.25 - 0.75, 0]])
    average = arco(b, future="mean", scale=1.0)
    np.testing.assert_allclose(average[:, 0], [0, 0, 0.25 - mean], atol=1e-12)
    discount = arco(b, future="discount", gamma=0.5, scale=1.0)
    np.testing.assert_allclose(discount[:2, 0], [0.125, -0.125])


def test_arco_lone_buckets_and_missing_scores():
    b = CreditBatch([[1, 1], [1, 0], [1, 1]], score_GS=[[1, 0], [0.5, 0], [NAN, 1]])
    # Third rollout is left out; position 1 has one member left: compared with the mean of all.
    mean = (1 + 0 + 0.5) / 3
    np.testing.assert_allclose(
        arco(b, scale=1.0), [[1 - mean, -0.25], [0.25, 0], [0, 0]], atol=1e-12
    )
    assert arco(CreditBatch([[1]], score_GS=[[NAN]])).tolist() == [[0.0]]


def test_arco_buckets_by_kind():
    kind = [["search", "note", "search", "finish"], ["search", "search", "finish", ""]]
    b = CreditBatch(
        [[1, 1, 1, 1], [1, 1, 1, 0]],
        kind_GS=kind,
        score_GS=[[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.0]],
    )
    # G: 1.0 .9 .7 .4 | 1.8 1.3 .7
    a = arco(b, bucket="kind", counted=["search"], scale=1.0)
    np.testing.assert_allclose(a[:, 0], [-0.4, 0.4])  # first searches
    np.testing.assert_allclose([a[0, 2], a[1, 1]], [-0.3, 0.3])  # second searches
    terminal = np.array([0.9, 0.4, 0.7])  # the note and both last steps
    np.testing.assert_allclose([a[0, 1], a[0, 3], a[1, 2]], terminal - terminal.mean())
    every = arco(b, bucket="kind", scale=1.0)
    mean = np.array([1.0, 0.9, 0.7, 0.4, 1.8, 1.3, 0.7]).mean()
    assert every[0, 1] == pytest.approx(0.9 - mean)  # a lone note


def test_arco_decomposition_is_a_projection():
    rng = np.random.default_rng(1)
    live = rng.random((50, 6)) < 0.8
    live[:, 0] = True
    s, R = rng.normal(size=(50, 6)), rng.integers(0, 2, 50)
    x = decompose(s, R, live)
    np.testing.assert_allclose(x.sum(axis=1), R, atol=1e-9)
    assert np.abs(x).max() <= 1
    np.testing.assert_allclose(decompose(x, R, live), x, atol=1e-9)
    # Nearest: no feasible move between two steps brings it closer.
    near = ((x - s) ** 2 * live).sum(axis=1)
    for _ in range(20):
        y = decompose(s + rng.normal(size=s.shape), R, live)
        assert (near <= ((y - s) ** 2 * live).sum(axis=1) + 1e-9).all()


# SRaR --------------------------------------------------------------------------------------------
def test_srar_by_hand():
    # Items: a suggestion (.8), a pitfall (-1), a bonus (+1); a pitfall is met where it failed.
    b = two(
        verdict_GK=[[1, 1, -1], [1, -1, 1]],
        cite_GKS=np.array(
            [
                [[1, 0], [1, 1], [0, 1]],  # met: the suggestion at step 1
                [[1, 1], [0, 1], [0, 0]],  # met: suggestion split, pitfall at 2, bonus nowhere
            ],
            dtype=bool,
        ),
        category_GK=[["suggest", "pitfall", "bonus"]] * 2,
    )
    raw = srar(b, normalise=False, eps=0)
    np.testing.assert_allclose(raw, [[H + 0.8, H], [-H + 1 + 0.4, -H + 1 - 0.6]])
    # Standardised by position over two rollouts every spread becomes +-H; the whole response, too.
    z = srar(b, eps=0)
    np.testing.assert_allclose(z, [[H + H - H, H + H - H], [-H - H + H, -H - H + H]])
    each = srar(b, normalise=False, cites="each", eps=0)
    np.testing.assert_allclose(each[1], [-H + 1 + 0.8, -H + 1 - 0.2])


def test_srar_positions_sum_to_zero_and_nothing_met_is_grpo():
    b = random_batch(np.random.default_rng(4))
    first = np.arange(6) == 0
    cited = CreditBatch(**{**vars(b), "cite_GKS": b.cite_GKS | first})
    step = srar(cited) - grpo(b, base="outcome")  # no item is met without a step
    for g in range(3):
        np.testing.assert_allclose(step[b.group_G == g].sum(axis=0), 0, atol=1e-9)
    assert np.abs(step).max() > 0.1
    nothing = srar(b, points={"suggest": 0.0})
    np.testing.assert_allclose(nothing, grpo(b, base="outcome"), atol=1e-9)
    with pytest.raises(CreditError, match="want categories"):
        srar(two(verdict_GK=[[1], [1]], cite_GKS=np.zeros((2, 1, 2)), category_GK=[["x"], ["x"]]))


# GiGPO -------------------------------------------------------------------------------------------
def test_gigpo_by_hand():
    b = two(state_GS=[["s", "a"], ["s", "b"]])
    np.testing.assert_allclose(gigpo(b, eps=0), [[2 * H, H], [-2 * H, -H]])
    np.testing.assert_allclose(gigpo(b, eps=0, omega=0), grpo(b, base="outcome", eps=0))
    centred = gigpo(b, mode="mean_norm")
    np.testing.assert_allclose(centred, [[0.5 + 0.475, 0.5], [-0.5 - 0.475, -0.5]])
    released = gigpo(b, lone="return", eps=0)
    np.testing.assert_allclose(released, [[2 * H, H + 1], [-2 * H, -H]])
    env = gigpo(two(state_GS=[["s", "a"], ["s", "b"]], env_GS=[[0, 0], [2, 0]]), eps=0)
    np.testing.assert_allclose(env[:, 0], [0, 0], atol=1e-12)


def test_gigpo_anchors_stay_inside_their_group():
    b = CreditBatch(
        [[1], [1], [1]], group_G=[0, 0, 1], outcome_G=[1, 0, 5], state_GS=[["s"], ["s"], ["s"]]
    )
    np.testing.assert_allclose(gigpo(b, eps=0), [[2 * H], [-2 * H], [0]])


# SALT --------------------------------------------------------------------------------------------
def test_salt_by_hand():
    b = two(state_GS=[["s", "t"], ["s", "t"]], action_GS=[["go", "x"], ["go", "y"]])
    np.testing.assert_allclose(salt(b, eps=0), [[0, H], [0, -H]], atol=1e-12)
    other = two(state_GS=[["s", "t"], ["s", "u"]], action_GS=[["go", "x"], ["go", "x"]])
    np.testing.assert_allclose(salt(other, eps=0), [[H, H], [-H, -H]])  # s' differs
    merged = salt(other, merge="state_action", eps=0)
    np.testing.assert_allclose(merged, [[0, H], [0, -H]], atol=1e-12)


def test_salt_repeats():
    state, action = [["s", "s", "s"], ["s", "s", "x"]], [["a", "a", "b"], ["a", "b", "c"]]
    b = CreditBatch(np.ones((2, 3)), outcome_G=[1, 0], state_GS=state, action_GS=action)
    # (s, a, s): twice by the first, once by the second.
    assert salt(b, eps=0)[0, 0] == pytest.approx(H / 3)
    assert salt(b, eps=0, repeats="once")[0, 0] == pytest.approx(0)


def test_salt_ungraded_rollouts_move_nobody():
    state, action = [["s"], ["s"], ["s"]], [["a"], ["a"], ["a"]]
    b = CreditBatch([[1], [1], [1]], outcome_G=[1, 0, NAN], state_GS=state, action_GS=action)
    assert salt(b).tolist() == [[0.0], [0.0], [0.0]]


# RTMC --------------------------------------------------------------------------------------------
def test_rtmc_by_hand():
    b = two(state_GS=[["s", "t"], ["s", "u"]], action_GS=[["x", "z"], ["y", "z"]])
    # V(s) = (1 + .5) / 3 = .5; Q(s, x) = (1 + .5) / 2 = .75
    # V(t) = (1 + .5) / 2 = .75; Q(t, z) = (1 + .75) / 2 = .875
    np.testing.assert_allclose(rtmc(b), [[0.25, 0.125], [-0.25, -0.125]])
    np.testing.assert_allclose(rtmc(b, prior=0), [[0.5, 0], [-0.5, 0]])
    np.testing.assert_allclose(rtmc(b, prior=1e12), 0, atol=1e-9)


def test_rtmc_visits():
    state, action = [["s", "s"], ["s", "t"]], [["x", "x"], ["y", "x"]]
    b = CreditBatch(np.ones((2, 2)), outcome_G=[1, 0], state_GS=state, action_GS=action)
    assert rtmc(b, prior=0)[0, 0] == pytest.approx(0.5)
    assert rtmc(b, prior=0, visits="every")[0, 0] == pytest.approx(1 - 2 / 3)
    assert rtmc(b, prior=0, gamma=0.5)[0, 0] == pytest.approx(0.25)


def test_rtmc_sums_to_zero_over_the_visits_of_a_state():
    b = random_batch(np.random.default_rng(6))
    a = rtmc(b, prior=0, visits="every")
    for g in range(3):
        for s in range(3):
            of = (b.group_G == g)[:, None] & (b.state_GS == s) & b.live_GS
            assert a[of].sum() == pytest.approx(0, abs=1e-9)


# RaR ---------------------------------------------------------------------------------------------
def test_rar_by_hand():
    v = [[1, -1, 1, 0], [-1, 1, NAN, 1], [0, 0, NAN, 0], [0, 0, 0, 0]]
    w = [[1.0, 0.7, 0.3, 0.9]]
    np.testing.assert_allclose(rar_reward(v, w), [1.3 / 2.0, 1.6 / 2.6, NAN, 0.0])
    b = CreditBatch(
        np.ones((2, 1)), verdict_GK=[[1, -1], [1, 1]], category_GK=[["pitfall", "essential"]] * 2
    )
    np.testing.assert_allclose(rar(b, eps=0), [[-H], [H]])
    with pytest.raises(CreditError, match="want categories"):
        rar(CreditBatch([[1]], verdict_GK=[[1]], category_GK=[["x"]]))


def test_rar_with_equal_weights_is_the_rubric_reward_rescaled():
    v = np.random.default_rng(7).choice([1.0, -1.0, 0.0], (30, 4))
    applies = (v != 0).any(axis=1)
    got = rar_reward(v, np.ones((1, 4)))[applies]
    np.testing.assert_allclose(got, (1 + rubric_reward(v)[applies]) / 2)


# Type-neutral ------------------------------------------------------------------------------------
def test_neutral_keeps_each_types_push_and_lone_types():
    b = random_batch(np.random.default_rng(8))
    a, plain, n = neutral(b), grpo(b), b.tokens_GS
    for g in range(3):
        for kind in np.unique(b.kind_GS):
            of = (b.group_G == g)[:, None] & (b.kind_GS == kind)
            assert (n * a)[of].sum() == pytest.approx((n * plain)[of].sum(), abs=1e-9)
    np.testing.assert_allclose(type_neutral(b, plain), plain, atol=1e-12)
    np.testing.assert_allclose(type_neutral(b, a), a, atol=1e-12)
    assert not np.allclose(a, RULES["draco"](b))


def test_neutral_lone_types_and_ungraded_rollouts():
    b = CreditBatch(
        [[2, 2], [2, 2], [5, 5]],
        reward_G=[1.0, 0.0, NAN],
        kind_GS=[["read", "finish"], ["read", "refund"], ["read", "read"]],
    )
    A = grpo(b, eps=0)
    a = type_neutral(b, [[3.0, 0.5], [0.5, 0.1], [0, 0]], eps=0)
    assert a[0, 1] == A[0, 1]
    assert a[1, 1] == A[1, 1]
    assert a[2].tolist() == [0, 0]
    np.testing.assert_allclose(a[:2, 0], [1.25, -1.25])


# All ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", RULES)
def test_padding_and_ungraded_rollouts_get_exactly_zero(name):
    b = random_batch(np.random.default_rng(9))
    a = RULES[name](b)
    assert a.shape == b.tokens_GS.shape
    assert (a[~b.live_GS] == 0).all()
    assert np.isfinite(a).all()
    assert not np.signbit(a[a == 0]).any()
    fields = dict(vars(b))
    fields["outcome_G"] = np.where(np.arange(15) == 4, NAN, b.outcome_G)
    fields["verdict_GK"] = np.where((np.arange(15) == 4)[:, None], NAN, b.verdict_GK)
    fields["score_GS"] = np.where((np.arange(15) == 4)[:, None], NAN, b.score_GS)
    ungraded = RULES[name](CreditBatch(**fields))
    assert (ungraded[4] == 0).all()
    # Other groups are not touched, where the baseline is the group.
    if name not in ("triage", "arco"):
        np.testing.assert_allclose(ungraded[5:], a[5:], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: triage(two(role_GS=[["x", ""], ["", ""]])), r"got role_GS\[0, 0\] = x"),
        (lambda: triage(two(role_GS=ROLES), c={"decisive": 1.0}), "want c with exactly the keys"),
        (lambda: triage(two(score_GS=[[2, 0], [0, 0]]), signal="score"), r"scores in \[-1, 1\]"),
        (lambda: triage(two(role_GS=ROLES), outside="x"), "want outside in"),
        (lambda: triage(two(role_GS=ROLES), lam=-1), "want lam a finite number"),
        (lambda: triage(two(role_GS=ROLES), signal="x"), "want signal in"),
        (lambda: triage(two(role_GS=ROLES), whiten_ddof=3), "want whiten_ddof in"),
        (lambda: judged_role_means([1.0], [[-1.0]]), r"got joint_RJ\[0, 0\] = -1.0"),
        (lambda: role_means([1.0], ["a", "b"]), "want role_N of shape"),
        (lambda: transition_rewards(np.ones((1, 1, 1)), [["Foo"]]), "want categories"),
        (
            lambda: transition_rewards(np.ones((1, 1, 1)), [["Ev"]], r={"Ev": 1.0}),
            "want r with exactly the keys",
        ),
        (lambda: transition_rewards(np.ones((1, 1)), [["Ev"]]), "want active_GSJ of shape"),
        (lambda: arco(two(score_GS=[[0, 0], [0, 0]]), future="x"), "want future in"),
        (lambda: arco(two(score_GS=[[0, 0], [0, 0]]), bucket="x"), "want bucket in"),
        (lambda: gigpo(two(state_GS=[[0, 0], [0, 0]]), mode="x"), "want mode in"),
        (lambda: gigpo(two(state_GS=[[0, 0], [0, 0]]), lone="x"), "want lone in"),
        (lambda: gigpo(two(state_GS=[[0, 0], [0, 0]]), gamma=2), "want gamma a finite number"),
        (lambda: salt(two(), merge="x"), "want merge in"),
        (lambda: salt(two(), repeats="x"), "want repeats in"),
        (lambda: rtmc(two(), visits="x"), "want visits in"),
        (lambda: rtmc(two(), prior=-1), "want prior a finite number"),
        (lambda: srar(two(), cites="x"), "want cites in"),
        (lambda: trca(two(), episode="x"), "want episode in"),
        (lambda: trca(two(), base="x"), "want base in"),
        (lambda: rar_reward([[1.0]], [[-1.0]]), r"got weight_GK\[0, 0\] = -1.0"),
        (lambda: type_neutral(two(reward_G=[1, 0]), [[1.0, 1.0]]), "want credit_GS of shape"),
        (lambda: decompose([[np.inf]], [0.0], [[True]]), "want finite score_GS"),
    ],
)
def test_errors(call, text):
    with pytest.raises(CreditError, match=text):
        call()
