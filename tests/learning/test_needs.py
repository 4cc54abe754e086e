"""What a plan says of missing worlds: whole sentences, and a remedy that exists."""

from rubricnb.train.needs import needs_of
from rubricnb.train.profile import load_profile


def test_missing_tau2_names_its_whole_installation_and_no_command_that_refuses(monkeypatch):
    monkeypatch.delenv("RUBRICNB_TAU2", raising=False)
    (tau2,) = [n for n in needs_of(load_profile("paper-qwen3.6-27b")) if "of tau2" in n.what]
    assert not tau2.met
    assert tau2.found.endswith("that environment's folder)")
    assert "install-world" not in tau2.remedy
