"""Figures as values: what they plot, their text form, inert labels, missing numbers, size."""

import csv
import json
import re
import time

import numpy as np
import plotly.graph_objects as go
import pytest
from planted import ATTACKS, EVIL, evil, large, small

from rubricnb import FailedJudgement, GradedGroup, Label, Rubric, Verdict, figures
from rubricnb.errors import ConfigError, CreditError
from rubricnb.figures.texts import clip, label, number

A = 1 / np.sqrt(2)


def strings(value):
    """Every text in a figure but its text form, which is no markup."""
    if isinstance(value, dict):
        return [s for k, v in value.items() if k != "meta" for s in strings(v)]
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        return [s for v in list(value) for s in strings(v)]
    return [value] if isinstance(value, str) else []


def table(fig):
    return fig.layout.meta["table"]


def training_rows():
    return [
        {"arm": a, "seed": s, "step": t, "pass_rate": 0.5 + 0.01 * t + 0.1 * s, "inert_share": v}
        for a in ("outcome", "draco")
        for s in (0, 1)
        for t, v in ((0, 0.2), (10, 0.3 + 0.1 * s), (20, float("nan")))
    ]


def test_credit_is_the_formulas():
    view = figures.numbers_of(small(), eps=0)
    assert view.reward_G.tolist() == [0, -1]
    np.testing.assert_allclose(view.advantage_G, [A, -A])
    np.testing.assert_allclose(view.total_GS[0], [30 * A * 2 / 3, 30 * A / 3, 0])
    fig = figures.draw(view, 0, only="timeline")["timeline"]
    np.testing.assert_allclose(fig.data[0].y, view.total_GS[0])
    np.testing.assert_allclose(fig.data[1].y, [2 * A, A, 0])
    assert table(fig)["passed citing it"] == ["Criterion 0", "Criterion 2", ""]
    assert table(fig)["failed citing it"] == ["", "", "Criterion 1"]


def test_credit_by_outcome():
    view = figures.numbers_of(small(), "grpo", base="outcome", eps=0)
    np.testing.assert_allclose(view.shown_G, [A, -A])
    fig = figures.draw(view, 0, only="heatmap")["heatmap"]
    assert fig.data[0].y[0] == "1. a  outcome 1  A 0.71"


def test_heat_map_leaves_padding_empty_and_shows_missing_rewards():
    graded = small()
    rows = (graded.judgements[0], tuple(FailedJudgement(f"c{k}", "lost") for k in range(3)))
    half = GradedGroup(graded.group, graded.rubric, rows, ("", "not readable"))
    with pytest.warns(UserWarning, match="fewer than 2 graded"):
        view = figures.numbers_of(half)
    fig = figures.draw(view, 0, only="heatmap")["heatmap"]
    assert np.isnan(fig.data[0].z[1][2])
    assert fig.data[0].z[1][1] == 0
    assert "R –  A –" in fig.data[0].y[1]


def test_verdict_matrix_tells_four_states_apart_by_sign_and_by_colour():
    graded = small()
    rows = (
        (
            Verdict("c0", Label.PASS, steps=(1,)),
            Verdict("c1", Label.FAIL, steps=(2, 3)),
            Verdict("c2", Label.NOT_APPLICABLE),
        ),
        (FailedJudgement("c0", "lost"), *graded.judgements[1][1:]),
    )
    fig = figures.verdict_matrix(GradedGroup(graded.group, graded.rubric, rows))
    heat = fig.data[0]
    assert [row[0] for row in heat.text] == ["✓ S1", "✗ S2,S3", "–"]
    assert heat.text[0][1] == "?"
    codes = {heat.z[0][0], heat.z[1][0], heat.z[2][0], heat.z[0][1]}
    colours = {c for _, c in heat.colorscale}
    assert len(codes) == len(colours) == 4
    assert "1 judge failed" in fig.layout.meta["description"]
    assert table(fig)["verdict"].count("judge failed") == 1


def test_flow_has_one_strand_a_citation():
    fig = figures.flow(small(), 0)
    link = fig.data[0].link
    names = fig.data[0].node.label
    strands = {(names[s][:1], names[t][:2]) for s, t in zip(link.source, link.target, strict=True)}
    assert strands == {("✓", "S1"), ("✗", "S3"), ("✓", "S2")}
    crowded = figures.flow(large(2, 200, 24, 60), 0, most=10)
    assert len([n for n in crowded.data[0].node.label if n.startswith("S")]) == 10
    assert any("further steps" in n for n in crowded.data[0].node.label)


def test_nothing_to_draw_is_said():
    graded = small()
    none = GradedGroup(graded.group, Rubric(()), ((), ()), ("rubric not readable",) * 2)
    assert "rubric not readable" in figures.fig_text(figures.verdict_matrix(none))
    assert "No criterion cites" in figures.fig_text(figures.flow(none, 0))


def test_rules_share_one_scale_and_keep_their_sums():
    graded = small()
    credit, missing = figures.all_rules(graded, 0)
    assert {"grpo", "draco"} <= set(credit)
    assert "role_GS" in missing["triage"]
    fig = figures.rules(graded.group.trajectories[0], credit, [10, 10, 10])
    left = [a.range for a in fig.select_yaxes(col=1)]
    assert len(set(left)) == 1
    low, high = left[0]
    for name, a in credit.items():
        assert low <= min(a * 10)
        assert max(a * 10) <= high, name
    assert sum(credit["draco"] * 10) == pytest.approx(sum(credit["grpo"] * 10))


def test_transcript_colours_every_token():
    graded = small()
    t = graded.group.trajectories[0]
    pieces = [["step", " 1", "<b>"], ["x"], ["y"]]
    html = figures.transcript(t, [1.0, -0.5, 0.0], pieces_S=pieces).html
    assert html.count('class="tok"') == 5
    assert 'background:rgba(0,114,178,0.50)" title="1">step<' in html
    assert 'background:rgba(213,94,0,0.25)" title="-0.5">x<' in html
    assert "&lt;b&gt;" in html
    assert "▲ S1 · 1 a token" in html
    with pytest.raises(CreditError, match=r"want one value a piece in step 2, 1; got 2"):
        figures.transcript(t, [1, 2, 3], pieces_S=pieces, credit_ST=[[1, 1, 1], [1, 2], [1]])
    with pytest.raises(CreditError, match=r"want credit_S of shape \(3,\)"):
        figures.transcript(t, [1.0])


def test_curves_have_seed_bands_and_leave_missing_values_out():
    fig = figures.pass_and_inert(training_rows())
    lines = [d for d in fig.data if d.fill is None]
    inert = next(d for d in lines if d.yaxis == "y2")
    assert inert.x == (0, 10)
    np.testing.assert_allclose(inert.y, [0.2, 0.35])
    band = next(d for d in fig.data if d.fill == "toself" and d.yaxis == "y2")
    np.testing.assert_allclose(band.y, [0.2, 0.4, 0.3, 0.2])
    assert "Fewer than 5 seeds" in fig.layout.meta["description"]
    with pytest.raises(ConfigError, match="want a column 'inert_share' in every row; got none in"):
        figures.pass_and_inert([{"arm": "a", "seed": 0, "step": 0, "pass_rate": 1}])


def test_table_figures():
    rows = [{"arm": "a", "k": k, "pass_at_k": 0.5 + 0.1 * k, "pass_hat_k": 0.7 - 0.1 * k}
            for k in (3, 1, 2)]  # fmt: skip
    path = figures.consistency(rows).data[1]
    np.testing.assert_allclose(path.x, [0.6, 0.7, 0.8])
    np.testing.assert_allclose(path.y, [0.6, 0.5, 0.4])
    cost = figures.cost(
        [
            {"arm": "base", "cost": None, "success": 0.4, "low": 0.3, "high": 0.5},
            {"arm": "free", "cost": 0, "success": 0.4, "low": 0.3, "high": 0.5},
            {"arm": "draco", "cost": 1e6, "success": 0.8, "low": 0.7, "high": 0.95},
        ]
    )
    assert [d.x for d in cost.data] == [(0,), (1e6,)]
    assert cost.layout.xaxis.type == "linear"
    assert cost.data[1].error_y.array[0] == pytest.approx(0.15)
    assert "not drawn: base" in figures.fig_text(cost)
    kinds = figures.by_kind([{"kind": "read", "mean": 0.5, "n": 3},
                             {"kind": "loop", "mean": float("nan"), "n": 9}])  # fmt: skip
    assert kinds.data[0].x == (0.5,)
    for empty in (figures.consistency([]), figures.cost([]), figures.by_kind([])):
        assert "No " in figures.fig_text(empty)


def everything():
    view = figures.numbers_of(evil())
    made = figures.draw(view, 0)
    arm = {"arm": EVIL, "seed": 0, "step": 1, "pass_rate": 0.5, "inert_share": 0.5}
    made["curves"] = figures.pass_and_inert([arm])
    made["cost"] = figures.cost([{"arm": EVIL, "cost": 1.0, "success": 0.5}])
    made["by_kind"] = figures.by_kind([{"kind": EVIL, "mean": 0.1, "n": 1}])
    made["consistency"] = figures.consistency(
        [{"arm": EVIL, "k": 1, "pass_at_k": 0.1, "pass_hat_k": 0.1}]
    )
    return made


@pytest.mark.filterwarnings("ignore:groups with fewer than 2")
def test_labels_are_inert():
    tags = re.compile(r"<(?!/?(b|br|extra)\b)", re.IGNORECASE)
    for name, fig in everything().items():
        for text in strings(fig.to_plotly_json()):
            assert not tags.search(text), (name, text)
            assert "$" not in text, (name, text)
    page = figures.transcript(evil().group.trajectories[0], [1.0, -1.0, 0.0]).html
    assert not re.search(r"<(?!/?(div|style|pre|details|summary|span)\b)", page)
    assert page.count("<style") == 1


def test_text_form_and_themes():
    fig = figures.verdict_matrix(small())
    text = figures.fig_text(fig)
    assert text.startswith("Verdicts: t\n3 criteria x 2 rollouts: 3 passed, 3 failed")
    assert "| Criterion 0 | a | passed | S1 | True |" in text
    dark = figures.themed(fig, "dark")
    assert dark.layout.template.layout.paper_bgcolor != fig.layout.template.layout.paper_bgcolor
    assert figures.fig_text(dark) == text
    with pytest.raises(ConfigError, match="want a theme among"):
        figures.themed(fig, "sepia")
    with pytest.raises(ConfigError, match="want a figure of rubricnb"):
        figures.fig_text(go.Figure())


def luminance(colour):
    def part(v):
        v = int(v, 16) / 255
        return v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4

    r, g, b = (part(colour[i : i + 2]) for i in (1, 3, 5))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_ink_can_be_read_and_bars_can_be_seen(theme):
    from rubricnb.figures.base import DOWN, TEMPLATES, UP
    from rubricnb.figures.verdicts import COLOUR

    layout = TEMPLATES[theme].layout
    assert contrast(layout.font.color, layout.paper_bgcolor) > 7
    for colour in (UP, DOWN):
        assert contrast(colour, layout.paper_bgcolor) > 3
    for colour in COLOUR.values():
        assert contrast(colour, "#14171A") > 4.5


@pytest.mark.filterwarnings("ignore:groups with fewer than 2")
def test_saving(tmp_path):
    figs = everything()
    paths = figures.save_page(figs, tmp_path / "page", f"All {ATTACKS[0]}")
    page = paths["index"].read_text(encoding="utf-8")
    assert page.count("plotly.js v") == 1
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    for text in ATTACKS[:4]:
        assert text not in page
    with open(paths["verdicts"], encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))
    assert rows[0] == ["criterion", "rollout", "verdict", "steps", "kept"]
    assert len(rows) == 5
    one = figures.save(figures.verdict_matrix(small()), tmp_path / "deep" / "verdicts")
    assert json.loads(one["json"].read_text())["layout"]["meta"]["title"] == "Verdicts: t"
    assert go.Figure(json.loads(one["json"].read_text())).layout.title.text == "Verdicts: t"
    assert one["html"].stat().st_size < 6e6


def test_a_cell_is_no_formula(tmp_path):
    from rubricnb.figures.saving import write_csv

    path = write_csv(tmp_path / "x.csv", {"text": ["=1+1", "@x", "fine"], "n": [-1.5, None, 2]})
    assert path.read_text().splitlines() == ["text,n", "'=1+1,-1.5", "'@x,", "fine,2"]


def test_large_groups_are_fast():
    graded = large()
    start = time.perf_counter()
    view = figures.numbers_of(graded)
    assert time.perf_counter() - start < 4
    for name in ("timeline", "heatmap", "verdicts", "flow", "rules"):
        start = time.perf_counter()
        text = figures.draw(view, 0, only=name)[name].to_json()
        took = time.perf_counter() - start
        # Rules compute ten credit rules on 64 x 500 steps before they draw.
        assert took < (6 if name == "rules" else 2), (name, took)
        assert len(text) < 4e6, (name, len(text))
    start = time.perf_counter()
    html = figures.transcript(graded.group.trajectories[0], view.row(0)[0]).html
    assert time.perf_counter() - start < 2
    assert len(html) < 1e6


def test_texts():
    assert clip("abc", 3) == "abc"
    assert "[... 99600 characters ...]" in clip("x" * 100_000, 400)
    assert label("a\nb" + "c" * 80, 400, 40).count("<br>") == 3
    assert number(None) == number(float("nan")) == "–"
    assert number(float("inf")) == "inf"
