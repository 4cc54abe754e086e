"""The credit rules in one table: whichever were trained, each with what it saw."""

import dataclasses
import json

from synthetic import TINY, write_study

from rubricnb.experiments.profiles import ARMS
from rubricnb.experiments.rules_table import RULE_ARMS, RULE_PAIRS, RULE_STUDY, SEES
from rubricnb.experiments.studying import rules
from rubricnb.experiments.writing import finished, write_tables
from rubricnb.train.arms import ARMS as TRAINED


def test_every_arm_of_the_table_can_be_trained_and_none_joins_the_papers_tables():
    assert {a for arms in RULE_STUDY.values() for a in arms} - {"base"} <= set(TRAINED)
    assert {a for pair in RULE_PAIRS for a in pair[:2]} <= set(RULE_ARMS)
    assert set(SEES) <= set(RULE_ARMS)
    assert "triage" not in ARMS


def test_rules_stand_beside_one_another_with_paired_differences(tmp_path):
    study = {"main": ("base", "outcome", "dynamic", "draco", "triage", "trca")}
    profile = dataclasses.replace(TINY, name="rules")
    write_study(tmp_path, profile, study)
    runs = finished(profile, tmp_path, study)
    files = write_tables(profile, runs, tmp_path / "tables", ("rules", "main"))
    text = files["rules"].markdown.read_text()
    for name in study["main"]:
        assert f"| {RULE_ARMS[name]} " in text
    assert "TRCA on the outcome over DRACO" in text
    assert "ARCO" not in text  # not trained, so not shown
    assert "the world's verdict, and a judge's role of each step" in text
    assert "TRIAGE" not in files["main"].markdown.read_text()
    record = json.loads((tmp_path / "tables/record.json").read_text())
    ours = [c for c in record["tables"]["rules"]["cells"] if c["kind"] == "ours"]
    assert {r for c in ours for r in c["runs"]} == {str(r.key) for r in runs}


def test_the_study_of_the_rules_reads_what_is_trained(tmp_path):
    study = {"main": ("base", "outcome", "draco", "triage")}
    profile = dataclasses.replace(TINY, name="rules")
    write_study(tmp_path, profile, study)
    files = rules(profile, tmp_path, train=False)
    text = files.markdown.read_text()
    assert f"| {RULE_ARMS['triage']} " in text
    assert RULE_ARMS["arco"] not in text
    assert files.markdown == tmp_path / "rules" / "tables" / files.markdown.name
