"""Six tasks of our own for AppWorld's engine: two scenarios of three variants, all about notes.

They try the engine and everything around it; they are no benchmark. ``make(root)`` writes them
with the engine's own classes; nothing of AppWorld's data is read or copied.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import WorldError
from .appworld_engine import engine_folder, python_of, run
from .base import WorldTask

DATASET = "mini"
WHEN = "2023-05-18T12:00:00"
_HINTS = (
    " (The app simple_note has login(username, password) -> access_token, search_notes(query, "
    "access_token), show_note(note_id, access_token), update_note(note_id, content, "
    "access_token); the password is in apis.supervisor.show_account_passwords().)"
)
_PEOPLE = (("Mira", "Holm"), ("Jonas", "Quist"), ("Tess", "Arden"))
_NOTES = (
    ("Shopping", "milk\neggs", ["home"]),
    ("Packing", "socks\ncharger", ["travel"]),
    ("Plants", "water the fern", ["home"]),
    ("Offsite", "book a room", ["work", "travel"]),
    ("Review", "read chapter two", ["work"]),
)
_APPEND = (("Shopping", "butter"), ("Packing", "passport"), ("Plants", "repot the palm"))
_COUNT = (("home", 2), ("travel", 2), ("work", 2))

_APPEND_TESTS = """
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    added, updated, removed = models.changed_records("simple_note.Note")
    with test("only notes have changed"):
        test.case(models.changed_model_names(), "==", {"simple_note.Note"})
    with test("one note was updated, none added or removed"):
        test.case([len(added), len(updated), len(removed)], "==", [0, 1, 0])
    with test("the wanted note ends with the wanted line"):
        note = models.end.simple_note.Note.find_one(title=private_data.title)
        test.case(note.content, "==", private_data.content)
"""
_COUNT_TESTS = """
import json


def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("nothing has changed"):
        test.case(models.changed_model_names(), "==", set())
    with test("the answer is right"):
        answer = json.loads(models.end.supervisor.Task.all()[0].answer)
        test.answer(answer, ground_truth_answer)
"""
_REQUIREMENTS = {
    "append": (
        "only notes have changed",
        "one note was updated, none added or removed",
        "the wanted note ends with the wanted line",
    ),
    "count": ("nothing has changed", "the answer is right"),
}


def rows() -> list[dict[str, Any]]:
    """Return the six tasks as ``appworld_make`` wants them."""
    return [_row(kind, v) for kind in ("append", "count") for v in range(3)]


def _row(kind: str, variant: int) -> dict[str, Any]:
    first, last = _PEOPLE[variant]
    if kind == "append":
        title, line = _APPEND[variant]
        before = next(text for name, text, _ in _NOTES if name == title)
        told = f"Add the line '{line}' at the end of my note titled {title} in Simple Note."
        private, answer = {"title": title, "content": f"{before}\n{line}"}, None
    else:
        tag, answer = _COUNT[variant]
        told, private = f"How many of my notes in Simple Note carry the tag '{tag}'?", {}
    email = f"{first}.{last}@example.com".lower()
    names = _REQUIREMENTS[kind]
    return {
        "id": f"mini{kind}_{variant + 1}",
        "instruction": told + _HINTS,
        "datetime": WHEN,
        "supervisor": {
            "first_name": first,
            "last_name": last,
            "email": email,
            "phone_number": f"555010000{variant}",
            "birthday": "1990-01-01",
        },
        "app": "simple_note",
        "model": "Note",
        "password": f"{first}-{last}-1",
        "records": [{"title": t, "content": c, "tags": tags} for t, c, tags in _NOTES],
        "public_data": {},
        "private_data": private,
        "answer": answer,
        "evaluation": _APPEND_TESTS if kind == "append" else _COUNT_TESTS,
        # A check that doing nothing passes, and one that doing nothing fails.
        "test_data": [
            {
                "requirement": name,
                "label": "no_op_pass" if name == "nothing has changed" else "no_op_fail",
            }
            for name in names
        ],
        "metadata": {
            "difficulty": 1 if kind == "append" else 2,
            "mode": "minimal",
            "num_apps": 1,
            "num_apis": 4,
            "num_api_calls": 6,
            "num_solution_code_lines": 6,
        },
    }


def make(root: Path, engine: Path | None = None) -> int:
    """Write the tasks into ``root``/data by the engine; return how many.

    Raises:
        WorldError: where the engine is not installed or refuses.
    """
    root.mkdir(parents=True, exist_ok=True)
    if (root / "data" / "tasks").exists() and not (root / "data" / f".{DATASET}").exists():
        raise WorldError(f"want a folder without other AppWorld data; got {root}")
    python = python_of(engine or engine_folder())
    maker = str(Path(__file__).with_name("appworld_make.py"))
    given = json.dumps({"dataset": DATASET, "tasks": rows()})
    count = int(run(python, "-P", maker, str(root), root=root, given=given).split()[-1])
    (root / "data" / f".{DATASET}").write_text("tasks of our own\n")
    return count


def solution(task: WorldTask) -> Sequence[str]:
    """Return code blocks that solve a task, in the words of an agent that knows the answer."""
    row = next(r for r in rows() if r["id"] == task.id)
    login = (
        "passwords = apis.supervisor.show_account_passwords()\n"
        "password = next(p['password'] for p in passwords if p['account_name'] == 'simple_note')\n"
        "email = apis.supervisor.show_profile()['email']\n"
        "token = apis.simple_note.login(username=email, password=password)['access_token']"
    )
    look = "notes = apis.simple_note.search_notes(access_token=token)\nprint(notes)"
    if row["answer"] is None:
        wanted = row["private_data"]
        do = (
            f"note = next(n for n in notes if n['title'] == {wanted['title']!r})\n"
            "print(apis.simple_note.update_note(note_id=note['note_id'], "
            f"content={wanted['content']!r}, access_token=token))"
        )
        return (login, look, do, "apis.supervisor.complete_task()")
    tag = next(t for t, _ in _COUNT if f"'{t}'" in row["instruction"])
    return (
        login,
        look,
        f"n = sum({tag!r} in note['tags'] for note in notes)\nprint(n)",
        "apis.supervisor.complete_task(answer=n)",
    )
