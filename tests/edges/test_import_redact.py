"""Redaction: what goes, what stays, where it is looked for, and how it is counted."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricnb import importers
from rubricnb.errors import ConfigError
from rubricnb.files import encode
from rubricnb.importers.redact import Redactor

PHONES = [
    "call +1 650 253 0000 now",
    "(650) 253-0000",
    "650-253-0000",
    "650.253.0000",
    "(212) 555-1234",
    "+49 30 901820",
    "+442079460958",
    "0044 20 7946 0958",
    "020 7946 0958",
    "+33 1 42 68 53 00",
    "call me at 555-0100",
    "phone: 6502530000",
    "tel. 030/901820",
    "whatsapp 1234567890",
]
NO_PHONES = [
    "order 6502530000",
    "#W2378156",
    "payment gift_card_7245904",
    "2024-05-15 15:00:00 EST",
    "05/20/2024 1234",
    "20240515",
    "12.05.2024 18:30",
    "ISBN 978-3-16-148410-0",
    "192.168.100.200:8000",
    "card 4111-1111-1111-1111",
    "1751700100.123",
    "1,234,567,890",
    "10 000 000 000",
    "1 2 3 4 5 6 7 8 9 10",
    "version 1.2.3.4-5",
    "user_id: 9957-1234",
    "zip 94043-1351",
    "(2016-2018), (16.8-14.32)",
    "call_MS60qsjtf94tP7pv3hJP8qVK",
    "019bb8ba14e2b7a5bc8dbbacf9a393f6",
    "tracking 1Z999AA10123456784",
    "@@ -242,7 +242,7 @@ def f():",
    "HAT170 2024-05-22 12:30",
]
KEYS = [
    "sk-proj-abcdefghijklmnop1234",
    "sk-ant-api03-abcdefghijklmnopqrst",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopq",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "hf_abcdefghijklmnopqrstuvwx",
    "xoxb-123456789012-abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    "Authorization: Bearer abcdefghijklmnop1234",
    "password=hunter22",
    "export API_KEY='abc123def456'",
]
NO_KEYS = [
    "token = tok",
    "max_tokens: 4096",
    "api_key: os.environ['KEY']",
    "the password is wrong",
    "a key to success",
    "sk-learn and ghost",
    "basic questions",
]


@pytest.mark.parametrize("text", PHONES)
def test_phone_numbers_go(text):
    r = Redactor()
    assert "[phone]" in r.text(text)
    assert r.counts == {"phone": 1}


@pytest.mark.parametrize("text", NO_PHONES + NO_KEYS)
def test_order_numbers_dates_and_code_stay(text):
    r = Redactor()
    assert r.text(text) == text
    assert not r.counts


@pytest.mark.parametrize("text", KEYS)
def test_keys_go(text):
    r = Redactor()
    out = r.text(f"see {text} there")
    assert "[key]" in out
    assert text not in out
    assert out.endswith(" there")
    assert r.counts == {"key": 1}


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("to ann.b+c@mail.example.co.uk, ok", "to [email], ok"),
        (r"line\nbob@example.com\n", r"line\n[email]\n"),
        ("robot@2x.png @pytest.fixture a@b", "robot@2x.png @pytest.fixture a@b"),
    ],
)
def test_addresses(text, out):
    assert Redactor().text(text) == out


def test_everywhere_in_a_trajectory(tmp_path):
    secret = "ann@example.com"
    arguments = json.dumps({"to": secret, "note": f"hi\n{secret}", "phone": "6502530000", "n": 1})
    row = {
        "id": f"run of {secret}",
        "task_id": secret,
        "model": f"m {secret}",
        "labels": {secret: [secret, {"by": secret}]},
        "extra": {"x": secret, "api_key": "abc123xyz"},
        "messages": [
            {"role": "system", "content": f"s {secret}"},
            {"role": "user", "content": f"u {secret} EMP-17"},
            {
                "role": "assistant",
                "content": f"<think>t {secret}</think>a {secret}",
                "tool_calls": [{"id": secret, "function": {"name": "f", "arguments": arguments}}],
            },
            {"role": "tool", "tool_call_id": secret, "content": f"o {secret}"},
        ],
    }
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row) + "\n")
    reading = importers.read(path, redact=True, patterns=["EMP-[0-9]+"])
    (t,) = reading
    line = encode(t)
    assert secret not in line
    assert "EMP-17" not in line
    assert "6502530000" not in line
    assert "abc123xyz" not in line
    step = t.steps[0]
    assert json.loads(step.calls[0].arguments) == {
        "to": "[email]",
        "note": "hi\n[email]",
        "phone": "[phone]",
        "n": 1,
    }
    assert (step.text, step.thinking, t.task.prompt) == (
        "a [email]",
        "t [email]",
        "u [email] [redacted]",
    )
    assert step.observations[0].call_id == step.calls[0].id
    assert reading.report.redacted["pattern 1"] == 1
    assert reading.report.redacted["phone"] == 1
    assert reading.report.redacted["key"] == 1
    assert reading.report.redacted["email"] > 10
    assert "redacted" in str(reading.report)


def test_tasks_that_are_told_apart_by_an_address_stay_apart(tmp_path):
    rows = [
        {"task_id": who, "messages": [{"role": "assistant", "content": "a"}]}
        for who in ("ann@example.com", "bob@example.com", "ann@example.com")
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    a, b, c = importers.read(path, redact=True)
    assert a.task.id == c.task.id != b.task.id
    assert len({a.id, b.id, c.id}) == 3
    assert "ann" not in repr((a, b, c))


def test_nothing_changes_without_being_asked_and_patterns_work_alone(tmp_path):
    path = tmp_path / "log.jsonl"
    row = {"messages": [{"role": "assistant", "content": "ann@example.com EMP-1"}]}
    path.write_text(json.dumps(row) + "\n")
    (t,) = importers.read(path)
    assert t.steps[0].text == "ann@example.com EMP-1"
    (t,) = importers.read(path, patterns=["EMP-[0-9]"])
    assert t.steps[0].text == "ann@example.com [redacted]"


@pytest.mark.parametrize("pattern", ["(", "a*"])
def test_patterns_that_are_none_are_refused(tmp_path, pattern):
    with pytest.raises(ConfigError, match="want a"):
        Redactor([pattern])


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.integers(1, 3))
def test_counts_are_the_same_for_text_that_comes_again(text, times):
    long = text + " ann@example.com " + "x" * 400
    once, often = Redactor(), Redactor()
    out = once.text(long)
    for _ in range(times):
        assert often.text(long) == out
    assert often.counts == {k: n * times for k, n in once.counts.items()}
    assert "ann@example.com" not in out
