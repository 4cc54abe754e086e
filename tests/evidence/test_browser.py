"""In Debian's chromium: report and figures open, controls work, planted scripts do not run.

Screenshots go to the folder that RUBRICNB_SCREENSHOTS names, for looking at, else nowhere.
"""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from planted import EVIL, evil, small

import rubricnb
from rubricnb import Criterion, GradedGroup, Label, Rubric, Verdict, figures
from rubricnb.report import write
from rubricnb.trajectory import Group, Observation, Step, Task, ToolCall, Trajectory
from rubricnb.worlds import sample_pair

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore:groups with fewer than 2 graded"),
]


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A page that keeps what its console said and what it asked for."""
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    page.said, page.asked = [], []
    page.on("console", lambda m: page.said.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: page.said.append(str(e)))
    page.on("dialog", lambda d: (page.said.append(f"dialog {d.message}"), d.dismiss()))
    page.on("request", lambda r: page.asked.append(r.url))
    yield page
    page.close()


def snap(page, name):
    folder = os.environ.get("RUBRICNB_SCREENSHOTS")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png")


def nothing_ran(page):
    assert page.evaluate("window.pwned") is None
    assert page.said == []
    assert all(u.startswith(("file:", "data:")) for u in page.asked), page.asked


@pytest.fixture
def report(tmp_path, page):
    graded = rubricnb.grade(sample_pair().group, "offline")[0]
    write([evil(), small(), graded], tmp_path / "report.html", title=f"Title {EVIL}")
    page.goto((tmp_path / "report.html").as_uri())
    return page


def test_the_report_runs_nothing_that_was_planted(report):
    assert "6 of 6 rollouts" in report.inner_text("#count")
    for i in range(6):
        report.locator("#list a").nth(i).click()
        report.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    report.locator("#list a").first.click()
    assert "<script>window.pwned=1</script>" in report.inner_text("#main")
    for link in report.locator("#main a").all():
        assert (link.get_attribute("href") or "").startswith("#")
    report.fill("#search", "<script>window.pwned")
    report.wait_for_selector("#main mark", state="attached")
    assert report.locator(".step details[open] mark").count() > 0
    assert report.locator("#main img, #main iframe, #main script, #main svg").count() == 0
    nothing_ran(report)
    snap(report, "report_evil")


def test_the_policy_stops_what_the_page_does_not_bring(report):
    report.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 2';"
        "document.body.append(s); const i = document.createElement('img');"
        "i.setAttribute('onerror', 'window.pwned = 3'); i.src = 'http://127.0.0.1:9/x';"
        "document.body.append(i); }"
    )
    report.wait_for_timeout(300)
    assert report.evaluate("window.pwned") is None
    assert any("Content Security Policy" in s for s in report.said)


def test_long_words_do_not_widen_the_report(tmp_path, page):
    word = "L" * 3000
    task = Task(word, word)
    calls, seen = (ToolCall(word, word),), (Observation(word, "tool", word),)
    step = Step(word, calls, seen, agent=word)
    rollout = Trajectory(word, task, (step,), 1.0, termination=word, model=word, warnings=(word,))
    rubric = Rubric((Criterion("c", word, word),), word)
    verdicts = ((Verdict("c", Label.PASS, word, (1,), flags=(word,)),),)
    write([GradedGroup(Group(task, (rollout,)), rubric, verdicts)], tmp_path / "r.html", title=word)
    page.goto((tmp_path / "r.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    nothing_ran(page)
    snap(page, "report_long_words")


def test_search_and_filters(report):
    def count():
        return int(report.inner_text("#count").split()[0])

    report.fill("#search", "criterion 1")
    report.wait_for_selector("#count:text-is('2 of 6 rollouts')")
    report.locator("#list a").first.click()
    assert report.locator("#main mark").first.inner_text() == "Criterion 1"
    report.click("button[type=reset]")
    report.wait_for_selector("#count:text-is('6 of 6 rollouts')")
    report.select_option("#task", "t")
    assert count() == 2
    report.select_option("#outcome", "success")
    assert count() == 1
    assert "a" in report.inner_text("#list")
    report.select_option("#outcome", "")
    report.select_option("#verdict", "not_applicable")
    assert count() == 0
    report.select_option("#task", "")
    assert count() >= 1
    report.select_option("#verdict", "")
    report.check("#failed")
    assert count() == 1
    report.uncheck("#failed")
    report.select_option("#verdict", "fail")
    assert 0 < count() < 6


def test_deep_links_rules_and_keys(report):
    report.goto(report.url.split("#")[0] + "#a-S3")
    report.wait_for_selector("#step-3.here")
    assert report.evaluate("document.activeElement.id") == "step-3"
    head = report.inner_text("#step-3 h4")
    assert "0 a token × 10 tokens = 0" in head
    assert "cited by 0 ✓ 1 ✗, Q 0" in head
    first = float(report.inner_text("#step-1 h4").split("▲ ")[1].split()[0])
    want = figures.numbers_of(small()).credit_GS[0, 0]
    assert first == pytest.approx(want, abs=1e-3)
    report.select_option("#rule", "grpo")
    assert "▲ 0.707 a token" in report.inner_text("#step-3 h4")
    report.locator("#main td a", has_text="S1").first.click()
    report.wait_for_selector("#step-1.here")
    assert report.url.endswith("#a-S1")
    report.goto(report.url.split("#")[0] + "#nobody-S1")
    assert "No rollout at this address" in report.inner_text("#main")
    report.keyboard.press("Tab")
    assert report.evaluate("document.activeElement !== document.body")


def test_light_and_dark(report):
    def background():
        return report.evaluate("getComputedStyle(document.body).backgroundColor")

    report.emulate_media(color_scheme="light")
    light = background()
    snap(report, "report_light")
    report.emulate_media(color_scheme="dark")
    assert background() != light
    snap(report, "report_dark")
    report.click("#theme")
    assert background() == light


def test_figures_page(tmp_path, page):
    figs = figures.draw(figures.numbers_of(evil()), 0)
    figures.save_page(figs, tmp_path, f"Figures {EVIL}")
    page.emulate_media(color_scheme="dark")
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 5")
    assert page.evaluate("document.querySelector('.js-plotly-plot')._fullLayout.paper_bgcolor") == (
        "#16191D"
    )
    for box in page.locator(".js-plotly-plot .nsewdrag").all()[:4]:
        box.hover(force=True)
        page.wait_for_timeout(50)
    assert page.locator("[data-figure] img, [data-figure] iframe, [data-figure] a").count() == 0
    assert all(t.get_attribute("aria-label") for t in page.locator("[data-figure]").all())
    assert "<script>window.pwned=1</script>" in page.locator(".gtitle").first.text_content()
    nothing_ran(page)
    snap(page, "figures_dark")


def test_transcript_is_inert(tmp_path, page):
    graded = evil()
    pieces = [[EVIL[:9], EVIL[9:]]] * 3
    html = figures.transcript(graded.group.trajectories[0], [1.0, -1.0, 0.0], pieces_S=pieces).html
    (tmp_path / "t.html").write_text(
        f"<!doctype html><meta charset=utf-8>{html}", encoding="utf-8", errors="backslashreplace"
    )
    page.goto((tmp_path / "t.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert page.locator(".tok").count() == 6
    assert page.locator("script, img, iframe, svg").count() == 0
    nothing_ran(page)


def run_notebook(cells, folder):
    """Write a notebook of code cells and return its path."""
    import nbformat

    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nb = nbformat.v4.new_notebook(metadata={"kernelspec": spec})
    nb.cells = [nbformat.v4.new_code_cell(c.strip()) for c in cells]
    nbformat.write(nb, folder / "nb.ipynb")
    return folder / "nb.ipynb"


@pytest.mark.slow
def test_a_converted_notebook_draws_offline(tmp_path, page):
    import papermill

    path = run_notebook(
        [
            "import rubricnb\nfrom rubricnb.worlds import sample_pair\n"
            "graded = rubricnb.grade(sample_pair().group, 'offline')[0]\n"
            "rubricnb.explore(graded)",
            "rubricnb.show(graded, 1)",
        ],
        tmp_path,
    )
    papermill.execute_notebook(path, path, progress_bar=False, kernel_name="python3")
    convert = [sys.executable, "-m", "nbconvert", "--to", "html", str(path)]
    subprocess.run(convert, check=True, capture_output=True, timeout=300)
    page.goto(path.with_suffix(".html").as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 10")
    assert page.evaluate("[...document.querySelectorAll('.js-plotly-plot')].length") == 10
    snap(page, "nbconvert")


@pytest.fixture
def lab(tmp_path):
    """JupyterLab on loopback, with nothing of the user's."""
    pytest.importorskip("jupyterlab")
    runtime, root = tmp_path / "runtime", tmp_path / "root"
    root.mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }
    argv = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0"]
    argv += ["--allow-root", f"--ServerApp.root_dir={root}"]
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(argv, env=env, stdout=log, stderr=log, cwd=root)
        try:
            end = time.monotonic() + 90
            while not (found := list(runtime.glob("jpserver-*.json"))):
                assert time.monotonic() < end, (tmp_path / "log").read_text()
                assert server.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.2)
            time.sleep(0.3)
            info = json.loads(found[0].read_text())
            yield root, info["url"], info["token"]
        finally:
            server.terminate()
            server.wait(30)


def values(page, figure, trace):
    """The y values of a trace of the figure of that number, as the browser has them."""
    y = page.evaluate(
        "([f, t]) => { const y = document.querySelectorAll('.js-plotly-plot')[f].data[t].y;"
        "return y.bdata ? {bdata: y.bdata, dtype: y.dtype} : Array.from(y); }",
        [figure, trace],
    )
    if isinstance(y, dict):
        return np.frombuffer(base64.b64decode(y["bdata"]), dtype=y["dtype"])
    return np.array(y, dtype=float)


def until(page, figure, trace, want):
    """Wait until a trace has the values wanted."""
    for _ in range(600):
        got = values(page, figure, trace)
        if got.shape == np.shape(want) and np.allclose(got, want, atol=1e-9):
            return
        page.wait_for_timeout(100)
    np.testing.assert_allclose(values(page, figure, trace), want)


CELLS = [
    "import sys\nsys.path.insert(0, {tests!r})\nimport rubricnb\nfrom planted import evil, small",
    "explorer = rubricnb.explore([small(), evil()])\nexplorer",
    "comparison = rubricnb.compare(small(), 0, names=['grpo', 'draco'])\ncomparison",
]


@pytest.mark.slow
def test_jupyterlab_moves_a_slider_and_edits_a_criterion(lab, page):
    from playwright.sync_api import expect

    root, url, token = lab
    run_notebook([c.format(tests=str(Path(__file__).parent)) if "{tests" in c else c
                  for c in CELLS], root)  # fmt: skip
    page.set_viewport_size({"width": 1400, "height": 3600})
    page.goto(f"{url}lab/tree/nb.ipynb?token={token}")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    # Cells that are run before the kernel is there are lost.
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle", timeout=120_000)
    page.click(".lm-MenuBar-itemLabel:text-is('Run')")
    page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")
    page.wait_for_function(
        "document.querySelectorAll('.js-plotly-plot').length >= 2", timeout=120_000
    )
    now = figures.numbers_of(small())
    until(page, 0, 0, now.total_GS[0])

    # A slider: mix = 0 is plain GRPO. Its trace of values a token is the fourth.
    until(page, 1, 3, now.credit_GS[0])
    page.click("text=Constants of draco")
    handle = page.locator(".widget-hslider", has_text="mix").locator(".noUi-handle")
    handle.focus()
    page.keyboard.press("Home")
    until(page, 1, 3, figures.numbers_of(small(), "grpo").credit_GS[0])
    snap(page, "lab_slider")

    # A verdict by hand, as the formula says; then back.
    box = page.locator(".jp-OutputArea").nth(1)
    box.get_by_label("Criterion").select_option("✗ Criterion 1")
    # The kernel fills the fields in; what is typed before that would be overwritten.
    expect(box.get_by_label("Cited steps")).to_have_value("3", timeout=60_000)
    box.get_by_label("Verdict").select_option("✓ passed")
    box.get_by_role("button", name="Set verdict").click()
    passed = rubricnb.explore(small()).judge("c1", "pass", (3,)).now
    until(page, 0, 0, passed.total_GS[0])
    box.get_by_role("button", name="Undo").click()
    until(page, 0, 0, now.total_GS[0])

    # A new criterion is edited in; an error shows.
    box.get_by_label("Title").fill("Says <b>goodbye</b>")
    box.get_by_role("button", name="Add as new").click()
    page.wait_for_selector("text=added hand1", timeout=60_000)
    expect(box.get_by_label("Reason")).to_have_value("not graded yet", timeout=60_000)
    box.get_by_label("Cited steps").fill("99")
    box.get_by_role("button", name="Set verdict").click()
    page.wait_for_selector("text=Error: want cited steps in 1..3; got [99]")
    snap(page, "lab_explorer")

    # The planted task, in every picture.
    box.get_by_label("Task").select_option(index=1)
    page.wait_for_selector(".gtitle:has-text('Step credit of r1 <script>')")
    for name in ("heatmap", "verdicts", "flow", "rules", "transcript", "timeline"):
        box.get_by_role("button", name=name).click()
        page.wait_for_timeout(400)
    assert "Error" not in box.inner_text()
    snap(page, "lab_evil")
    assert page.evaluate("window.pwned") is None
    assert page.locator(".jp-OutputArea img[src=x], .jp-OutputArea iframe").count() == 0
    ours = [s for s in page.said if "Failed to load resource" not in s]
    assert ours == []
