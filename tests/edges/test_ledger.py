"""Money: bills in which unknown is never 0, price tables, and budgets that are not exceeded."""

import asyncio
import random

import pytest

from rubricnb.errors import BudgetError, ConfigError
from rubricnb.judge import Call, CallableJudge, EndpointJudge, Ledger, Reply, Usage, load_prices
from rubricnb.judge.budget import Budget, worst_case
from rubricnb.judge.loop import run
from rubricnb.judge.prices import Price
from rubricnb.judge.recorded import RecordedJudge
from tests.edges.loopback import Hang, Loopback, completion

PRICE = Price(prompt=2.0, cached=0.5, completion=8.0, table="made up")


def call(text="hello", phase="scoring", **more):
    return Call(phase, ({"role": "user", "content": text},), **{"max_tokens": 50, **more})


def test_bills_by_phase_group_and_step():
    ledger = Ledger(PRICE)
    for step in (1, 2):
        ledger.step = step
        for phase, n in (("scoring", 2), ("union", 1)):
            for i in range(n):
                key = {"task_id": f"t{step}", "trajectory_id": f"r{i}"}
                ledger.add(call(phase=phase, key=key), Usage(100, 40, 10), 0.5, retries=i)
    assert list(ledger.by("phase")) == ["union", "scoring"]
    union = ledger.by("phase")["union"]
    assert (union.calls, union.prompt, union.cached, union.completion) == (2, 120, 80, 20)
    assert union.dollars == pytest.approx((120 * 2 + 80 * 0.5 + 20 * 8) / 1e6)
    assert ledger.by("phase")["scoring"].retries == 2
    assert {k: b.tokens for k, b in ledger.by("task_id").items()} == {"t1": 330, "t2": 330}
    assert set(ledger.by("step")) == {1, 2}
    assert ledger.per(2) == {"tokens": 330, "dollars": pytest.approx(ledger.bill().dollars / 2)}
    assert ledger.bill().seconds == 3.0
    assert "made up" in ledger.table()


def test_unknown_is_not_zero():
    ledger = Ledger(PRICE)
    ledger.add(call(), Usage(100, 0, 10), 0.5)
    ledger.add(call(), None, 0.5)
    assert ledger.bill().unknown == 1
    assert ">= 0.0003" in ledger.table()
    assert "1 calls have unknown tokens" in ledger.table()
    free = Ledger()
    free.add(call(), Usage(100, 0, 10), 0.5)
    assert free.bill().dollars is None
    assert free.per(4)["dollars"] is None
    assert "prices: unknown" in free.table()


def test_the_order_of_calls_does_not_change_a_bill():
    rows = [(call(), Usage(i, i // 2, i), i / 7) for i in range(200)]
    bills = set()
    for seed in range(5):
        ledger = Ledger(PRICE)
        for row in random.Random(seed).sample(rows, len(rows)):
            ledger.add(*row)
        bills.add(ledger.bill())
    assert len(bills) == 1


def test_the_shipped_table_knows_only_the_local_model():
    prices = load_prices()
    local = prices.find("http://127.0.0.1:8080/v1", "SmolLM2-135M-Instruct")
    assert (local.prompt, local.cached, local.completion) == (0.0, 0.0, 0.0)
    assert prices.find("http://127.0.0.1:8080/v1", "other") is None
    assert prices.find("https://api.openai.com/v1", "SmolLM2-135M-Instruct") is None


def test_the_users_table_comes_first(tmp_path, monkeypatch):
    own = tmp_path / "own.yaml"
    own.write_text(
        "version: 3\ndate: 2026-10-01\nprices:\n"
        "- {base_url: 'http*', model: 'Smol*', prompt: 1, completion: 2}\n"
    )
    price = load_prices(own).find("http://localhost:1/v1", "SmolLM2-135M-Instruct")
    assert price == Price(1.0, 1.0, 2.0, "own.yaml version 3 of 2026-10-01")
    monkeypatch.setenv("RUBRICNB_PRICES", str(own))
    assert load_prices().find("http://localhost:1/v1", "SmolLM2-135M-Instruct") == price


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[", "want a price table in YAML"),
        ("a: 1", 'want "version", "date" and a list "prices"'),
        ("prices: []", 'want a "date"'),
        ("date: x\nprices: [3]", "entry 1: want base_url, model, prompt and completion"),
        ("date: x\nprices: [{base_url: a, model: b, prompt: -1, completion: 1}]", ">= 0"),
        ("date: x\nprices: [{base_url: a, model: b, prompt: x, completion: 1}]", ">= 0"),
        (
            "date: x\nprices: [{base_url: a, model: b, prompt: 1, completion: 1, out: 2}]",
            "got 'out'",
        ),
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path, text, match):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=match):
        load_prices(path)


def spend(budget, judge, n):
    recorded = RecordedJudge(judge, budget=budget)

    async def work():
        calls = [recorded.complete(call(f"q{i}" * 20, key={"task_id": f"t{i}"})) for i in range(n)]
        return await asyncio.gather(*calls, return_exceptions=True)

    out = run(work())
    done = [r for r in out if isinstance(r, Reply)]
    refused = [r for r in out if isinstance(r, BudgetError)]
    assert len(done) + len(refused) == n
    return done, refused


@pytest.mark.parametrize("limit", [100, 333, 1000, 2500, 10_000])
def test_a_token_budget_is_never_exceeded(limit):
    rng = random.Random(limit)

    def answer(body):
        most = len(body["messages"][0]["content"]) // 3
        usage = {"prompt_tokens": most, "completion_tokens": rng.randint(1, 50)}
        return completion("{}", usage=usage)

    with Loopback(default=answer, latency=0.01) as server:
        budget = Budget(tokens=limit)
        done, refused = spend(budget, EndpointJudge(server.url, "m", concurrency=16), 60)
        assert server.served == len(done)
    used = sum(r.usage.prompt + r.usage.completion for r in done)
    assert used == budget.spent_tokens <= limit
    if refused:  # it stopped only where one more worst case would not have fitted
        most = worst_case(call("q10" * 20), 50)
        assert used > limit - most.prompt - most.completion
        assert "tokens are left" in str(refused[0])
    else:
        assert len(done) == 60


def test_a_dollar_budget_is_never_exceeded():
    judge = CallableJudge(lambda c: Reply("{}", usage=Usage(20, 10, 9)), "f")
    budget = Budget(dollars=0.002, price=PRICE)
    done, refused = spend(budget, judge, 40)
    assert done
    assert refused
    assert budget.spent_dollars == pytest.approx(len(done) * PRICE.of(Usage(20, 10, 9)))
    assert budget.spent_dollars <= 0.002
    assert "of $0.0020 are left" in str(refused[0])


def test_a_dollar_budget_without_a_price_refuses_to_start():
    with pytest.raises(BudgetError, match="want a price for a budget in dollars"):
        Budget(dollars=5.0)


def test_a_budget_needs_a_limit_of_completions():
    with pytest.raises(BudgetError, match=r"want max_tokens \(--max-tokens\) with a budget"):
        worst_case(call(max_tokens=None), None)


def test_unknown_use_counts_as_the_worst_case():
    judge = CallableJudge(lambda c: Reply("{}", usage=None), "f")
    worst = worst_case(call("q0" * 20), 50)
    each = worst.prompt + worst.completion
    budget = Budget(tokens=3 * each)
    done, refused = spend(budget, judge, 5)
    assert (len(done), len(refused)) == (3, 2)


def test_a_timeout_counts_as_the_worst_case_and_is_retried():
    with Loopback([Hang], completion("{}", usage=None)) as server:
        budget = Budget(tokens=10_000)
        judge = EndpointJudge(server.url, "m", attempt_seconds=0.3, deadline=10)
        done, _ = spend(budget, judge, 1)
    worst = worst_case(call("q0" * 20), 50)
    assert len(done) == 1
    assert budget.spent_tokens == 2 * (worst.prompt + worst.completion)


def test_what_a_run_spent_before_it_was_killed_counts():
    judge = CallableJudge(lambda c: Reply("{}", usage=Usage(1, 0, 1)), "f")
    budget = Budget(tokens=1000, spent=[Usage(500, 0, 490)])
    done, refused = spend(budget, judge, 3)
    assert not done
    assert "10 of 1,000 tokens are left" in str(refused[0])
