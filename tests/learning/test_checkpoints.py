"""What `rubricnb train` leaves is run by `rubricnb evaluate`, in one table with endpoints."""

import json

import pytest
import torch
from typer.testing import CliRunner

from rubricnb.cli import app
from rubricnb.errors import ConfigError
from rubricnb.train.checkpoints import open_checkpoint
from rubricnb.train.profile import load_profile
from rubricnb.train.start import start
from rubricnb.worlds import OrdersDesk
from rubricnb.worlds.registry import open_world
from rubricnb.worlds.rollouts import read_rollouts
from tests.edges.desk_player import player
from tests.edges.loopback import Loopback
from tests.learning.chat_models import tiny_model, tiny_tokenizer

run = CliRunner()
SMALL = (
    "policy.shape=null", "rollouts.prompts=1", "rollouts.group_size=2", "training.steps=1",
    "training.micro=1", "training.evaluate_at=[]", "training.lr=1e-2",
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    changes = ("policy.model=tiny:weak", "world.max_turns=24", *SMALL, "rollouts.group_size=6")
    made = load_profile("cpu", [*changes, "training.micro=6"])
    return start(made, tmp_path_factory.mktemp("tiny") / "run") / "adapters" / "step-1"


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    """A chat model of random weights, trained for a step through its function-calling template."""
    folder = tmp_path_factory.mktemp("chat")
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer).save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    where = (f"policy.model={folder / 'base'}", "rollouts.prompt=8000", "rollouts.turn=16")
    made = load_profile("cpu", [*SMALL, *where, "arm=random", "training.seed=5"])
    return start(made, folder / "run")


def evaluate(out, checkpoint, *more):
    args = ["--checkpoint", str(checkpoint), "--runs", "1", "--tasks", "3", *more]
    done = run.invoke(app, ["evaluate", "orders", "--split", "dev", "-o", str(out), *args])
    assert done.exit_code == 0, done.output
    return done


def test_an_adapter_a_base_and_an_endpoint_share_a_table(tiny, tmp_path):
    out, table = tmp_path / "out.jsonl", tmp_path / "table.json"
    evaluate(out, "weak")
    evaluate(out, tiny)
    tasks = OrdersDesk().tasks("dev")
    with Loopback(default=player(tasks)) as server:
        args = ["--base-url", server.url, "--model", "frontier", "--runs", "1", "--tasks", "3"]
        command = ["evaluate", "orders", "--split", "dev", "-o", str(out), *args]
        done = run.invoke(app, [*command, "--table", str(table)])
    assert done.exit_code == 0, done.output
    rows = json.loads(table.read_text())
    assert [r["model"] for r in rows] == ["weak", str(tiny), "frontier"]
    assert rows[2]["p1"]["mean"] == 1.0
    made = read_rollouts(out)
    weak, adapted = (made[i : i + 3] for i in (0, 3))
    assert [t.task.id for t in weak] == [t.task.id for t in adapted]
    assert weak[0].meta["identity"] != adapted[0].meta["identity"]
    texts = [[[s.authored for s in t.steps] for t in part] for part in (weak, adapted)]
    assert texts[0] != texts[1]  # the adapter acts
    assert "3 rollouts found, 0 made" in evaluate(out, tiny).output


def test_a_chat_model_is_trained_and_its_adapter_run_as_it_was_trained(chat, tmp_path):
    rows = [json.loads(x) for x in (chat / "train.jsonl").read_text().splitlines()]
    assert rows[0]["rollouts"] == 2
    assert rows[0]["sampling"]["sampled_tokens"] == rows[0]["tokens"] > 0
    adapter = chat / "adapters" / "step-1"
    world = open_world("orders", max_turns=2)
    opened = open_checkpoint(str(adapter), world)
    assert opened.profile.rollouts.begin == "<tool_call>\n"
    assert not opened.tiny
    tasks = world.tasks("dev")[:2]
    once = opened.play(world, "dev", tasks, [1, 2], ["a", "b"])
    again = opened.play(world, "dev", tasks, [1, 2], ["c", "d"])
    other = opened.play(world, "dev", tasks, [3, 4], ["a", "b"])
    ids = [[m.completion_ids for m in made] for made in (once, again, other)]
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]
    assert all(len(m.trajectory) <= 2 for m in once)
    out = tmp_path / "out.jsonl"
    evaluate(out, adapter, "--option", "max_turns=2")
    assert {len(t) for t in read_rollouts(out)} <= {1, 2}
    done = evaluate(out, adapter, "--option", "max_turns=2", "--concurrency", "2")
    assert "3 rollouts found, 0 made" in done.output


def test_the_chat_adapters_logits_are_the_trained_ones(chat):
    from peft import PeftModel

    base = tiny_model(tiny_tokenizer())
    opened = open_checkpoint(str(chat / "adapters" / "step-1"), open_world("orders"))
    ids = torch.arange(20)[None]
    plain = PeftModel.from_pretrained(base, chat / "adapters" / "step-1").eval()
    with torch.no_grad():
        loaded = plain(ids).logits
        assert torch.equal(opened.model(ids).logits, loaded)
        with plain.disable_adapter():
            assert not torch.allclose(plain(ids).logits, loaded)


def test_what_cannot_be_run_is_named(tiny):
    world = open_world("textworld")
    opened = open_checkpoint("weak", world)
    with pytest.raises(ConfigError, match="want the world orders or library for a tiny policy"):
        opened.play(world, "train", [], [], [])
    with pytest.raises(ConfigError, match="want a chat model that transformers can open"):
        open_checkpoint("/no/such/folder", OrdersDesk())
