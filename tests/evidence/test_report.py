"""The report: everything in one file, nothing that runs but its own script, a size that is kept."""

import base64
import dataclasses
import hashlib
import html
import json
import re
import time

import numpy as np
import pytest
from planted import ATTACKS, evil, large, small
from typer.testing import CliRunner

from rubricnb import Criterion, GradedGroup, Label, Rubric, Verdict, load
from rubricnb.cli import app
from rubricnb.errors import ConfigError, FormatError
from rubricnb.figures import numbers_of
from rubricnb.files import write_jsonl
from rubricnb.report import build, write

few = pytest.mark.filterwarnings("ignore:groups with fewer than 2 graded")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page,
                                re.DOTALL).group(1))  # fmt: skip


def test_it_holds_what_was_graded():
    data = data_of(build([small()], title="Ours").html)
    assert data["title"] == "Ours"
    assert data["rules"][:2] == ["draco", "grpo"]
    group = data["groups"][0]
    assert [c["kept"] for c in group["criteria"]] == [True, True, False]
    a = group["rollouts"][0]
    assert (a["R"], a["A"], a["outcome"]) == (0, pytest.approx(0.707106, abs=1e-6), 1)
    assert [v["v"] for v in a["verdicts"]] == ["pass", "fail", "pass"]
    assert a["verdicts"][1]["steps"] == [3]
    want = numbers_of(small()).credit_GS[0]
    np.testing.assert_allclose(a["credit"]["draco"], want, rtol=1e-5)
    assert a["Q"] == [1, 0.5, 0]
    assert len(group["rollouts"][1]["credit"]["draco"]) == 2


@few
def test_what_failed_is_null_and_not_0():
    a = data_of(build([evil()]).html)["groups"][0]["rollouts"][0]
    assert a["R"] is None
    assert a["A"] is None
    assert a["verdicts"][1]["v"] == "failed"


@few
def test_a_label_that_is_no_number_is_null():
    made = small()
    first, second = made.group.trajectories
    first = dataclasses.replace(first, labels={"quality": float("nan"), "most": float("inf")})
    group = dataclasses.replace(made.group, trajectories=(first, second))
    shown = data_of(build([dataclasses.replace(made, group=group)]).html)["groups"][0]["rollouts"][
        0
    ]
    assert shown["labels"] == {"quality": None, "most": None}


@few
def test_only_its_own_script_may_run():
    page = build([evil()]).html
    scripts = re.findall(r"<script(.*?)>(.*?)</script>", page, re.DOTALL)
    assert [s[0] for s in scripts] == [' type="application/json" id="data"', ""]
    policy = html.unescape(re.search(r'Security-Policy" content="([^"]+)"', page).group(1))
    digest = base64.b64encode(hashlib.sha256(scripts[1][1].encode()).digest()).decode()
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL).group(1)
    styled = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'sha256-{styled}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "unsafe" not in policy
    for attack in ATTACKS[:6]:
        assert attack not in page
    assert "\u2028" not in page
    texts = data_of(page)["groups"][0]["rollouts"][0]["steps"][0]["text"]
    assert all(a in texts for a in ATTACKS)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)
    assert not re.search(
        r"\son\w+\s*=|(src|href)\s*=\s*[\"']?(https?:)?//", page.split("<script")[0]
    )
    page.encode("utf-8")


@few
def test_the_title_is_escaped():
    page = build([small()], title=ATTACKS[1]).html
    assert "<title>&lt;/script&gt;" in page


def test_long_texts_are_cut_until_it_fits():
    graded = large(4, 30, 5, 400_000)
    assert build([graded]).cut == 4
    whole = build([graded], limit=500_000, max_bytes=10**8)
    assert whole.cut == 0
    assert len(whole.html) > 1.6e6
    made = build([graded], limit=500_000, max_bytes=400_000)
    assert len(made.html.encode()) <= 400_000
    assert made.limit < 500_000
    assert "characters left out" in made.html
    assert data_of(made.html)["cut"] == made.cut == 4
    with pytest.raises(ConfigError, match=r"want a report of at most 1,000 bytes; got"):
        build([graded], max_bytes=1000)


def graded_by_hand(group):
    """Verdicts that vary with the transcript, as many and as long as a judge's."""
    rubric = Rubric(tuple(Criterion(f"c{k}", f"Criterion {k}", "A sentence. " * 3, "Check. " * 20)
                          for k in range(12)))  # fmt: skip
    rows = []
    for t in group.trajectories:
        size = sum(len(s.authored) for s in t.steps)
        rows.append(
            tuple(
                Verdict(f"c{k}", [*Label][(size + k) % 3], "Because of this. " * 8,
                        tuple(sorted({1 + (size * k) % len(t), len(t)})))
                for k in range(12)
            )
        )  # fmt: skip
    return GradedGroup(group, rubric, tuple(rows))


def test_200_real_rollouts_under_20_mb(shared_data, tmp_path):
    groups = load(shared_data / "tau_bench_v1" / "gpt-4o-airline.json")
    start = time.perf_counter()
    made = write([graded_by_hand(g) for g in groups], tmp_path / "report.html")
    assert time.perf_counter() - start < 30
    assert made.rollouts == 200
    assert made.cut == 0
    assert (tmp_path / "report.html").stat().st_size < 20e6


def test_the_command(tmp_path):
    write_jsonl(tmp_path / "g.jsonl", [small()])
    out = tmp_path / "r.html"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "g.jsonl"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 rollouts of 1 tasks" in done.output
    assert data_of(out.read_text(encoding="utf-8"))["groups"][0]["task"]["id"] == "t"
    write_jsonl(tmp_path / "t.jsonl", small().group.trajectories)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "t.jsonl"), "-o", str(out)])
    assert isinstance(done.exception, FormatError)
    assert "value 1: want a graded group" in str(done.exception)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "no.jsonl"), "-o", str(out)])
    assert "want a file of graded groups" in str(done.exception)


def test_refusals(tmp_path):
    with pytest.raises(FormatError, match="want at least one graded group"):
        build([])
    with pytest.raises(ConfigError, match="want a rule among"):
        build([small()], rule="nope")
    path = tmp_path / "kept.html"
    write([small()], path)
    before = path.read_text(encoding="utf-8")
    with pytest.raises(ConfigError):
        write([small()], path, rule="nope")
    assert path.read_text(encoding="utf-8") == before


def test_an_ungraded_group_says_why():
    graded = small()
    empty = dataclasses.replace(
        graded, rubric=Rubric(()), judgements=((), ()), failures=("rubric lost", "rubric lost")
    )
    with pytest.warns(UserWarning, match="fewer than 2 graded"):
        data = data_of(build([empty]).html)
    assert data["groups"][0]["rollouts"][0]["failure"] == "rubric lost"
