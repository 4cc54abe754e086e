"""AppWorld experiment folders: ``tasks/<task id>/logs`` with what the agent ran and what came back.

A block of ``environment_io.md`` is one step: the code is its call, the output its observation. What
the agent wrote around the code is in ``lm_calls.jsonl`` where an agent kept that. Outcomes come
from the evaluation reports.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import FormatError
from ..trajectory import ToolCall, Trajectory
from .pull import BrokenJSON, decode
from .records import carry, finish, rows_of, table
from .report import Report
from .source import DOCUMENT, Row, Source
from .text import clean, flatten
from .turns import Message, Turns

NAME = "appworld"
BLOCK = re.compile(r"^### Environment Interaction (\d{1,6})[ \t]*\n-{5,}[ \t]*\n", re.MULTILINE)
CODE = re.compile(r"\s*```(?:python)?\n(.*?)\n?```[ \t]*(?:\n\s*```\w*\n(.*))?\Z", re.DOTALL)
FENCE = re.compile(r"```(?:python)?\n.*?(?:```|\Z)", re.DOTALL)
FAILED = re.compile(r"Num Failed Tests\s*:\s*(\d+)")
PASSED = re.compile(r"Num Passed Tests\s*:\s*(\d+)")
DEPTH = 6


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is an AppWorld experiment, and why."""
    if source.kind != "dir":
        return 0.0, "not a folder"
    found = next(tasks(source.path), None)
    if found is None:
        return 0.0, "no folder of a task with logs"
    return 0.97, "tasks with logs/environment_io.md"


def holds_folder(source: Source) -> bool:
    """Whether the folder is read as a whole rather than file by file: always."""
    return source.kind == "dir"


def tasks(root: Path) -> Iterator[Path]:
    """Yield the folders of tasks below a folder, in order, following no links."""
    for folder, names, _ in os.walk(root, followlinks=False):
        names.sort()
        depth = len(Path(folder).relative_to(root).parts)
        if depth >= DEPTH:
            names.clear()
        if "logs" in names and any(
            os.path.isfile(os.path.join(folder, "logs", n))
            for n in ("environment_io.md", "api_calls.jsonl", "lm_calls.jsonl")
        ):
            names.clear()
            yield Path(folder)


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a task of an experiment."""
    if source.kind != "dir":
        raise FormatError(f"{source.path}: want the folder of an experiment; got a file")
    several = len({f.parent for f in tasks(source.path)}) > 1
    for folder in tasks(source.path):
        source.report.records += 1
        path = Source(folder).inner("logs", "environment_io.md")
        where = f"{folder.name}/logs/environment_io.md"
        if path is None:
            source.report.damaged(where, "a task without logs/environment_io.md")
            continue
        if path.stat().st_size > DOCUMENT:
            source.report.damaged(where, f"a log of more than {DOCUMENT >> 20} MB")
            continue
        text = path.read_text("utf-8", "surrogateescape")
        yield task(folder, text, several, source)


def task(folder: Path, text: str, several: bool, source: Source) -> Trajectory:
    """Return one task's log as a trajectory."""
    report = source.report
    turns = Turns(report)
    where = f"{folder.name}/logs/environment_io.md"
    row = Row(None, 1, where)
    finished = interactions(text, where, turns, written(folder))
    instruction = instruction_of(folder)
    report.met(bool(instruction))
    if instruction:
        report.place("task")
    else:
        turns.warn(where, "the task's instruction is not in the folder")
    outcome, checks = evaluation(folder)
    experiment = folder.parent.parent.name if folder.parent.name == "tasks" else ""
    own = f"{experiment}/{folder.name}" if several and experiment else folder.name
    return finish(
        source,
        row,
        turns,
        NAME,
        id=own,
        task_id=folder.name,
        prompt=clean(instruction, report),
        task_meta={"scenario": folder.name.rpartition("_")[0] or folder.name},
        outcome=outcome,
        termination="finished" if finished else "",
        meta=carry({"experiment": experiment, **checks}, (), report),
    )


def written(folder: Path) -> list[str]:
    """Return what the model wrote in each of its calls, [] where that was not kept."""
    path = Source(folder).inner("logs", "lm_calls.jsonl")
    out = []
    for row in Source(path).lines() if path is not None else ():
        output = table(row.value, "output")
        choices = rows_of(output, "choices")
        said = table(choices[0], "message") if choices else output
        out.append(flatten(said.get("content"), Report())[0])
    return out


def interactions(text: str, where: str, turns: Turns, said: list[str]) -> bool:
    """Place the blocks of a log; return whether the last one completes the task."""
    report = turns.report
    marks: list[re.Match[str]] = []
    for m in BLOCK.finditer(text):
        # Output can hold text that looks like a heading: only the next number is one.
        if int(m[1]) == len(marks) + 1 or not marks:
            marks.append(m)
    last = ""
    if said and len(said) != len(marks):
        turns.warn(where, "lm_calls.jsonl has another number of turns; its text is left out")
        said = []
    for i, m in enumerate(marks):
        block = text[m.end() : marks[i + 1].start() if i + 1 < len(marks) else len(text)]
        place = f"{where}, line {text.count(chr(10), 0, m.start()) + 1}"
        report.met()
        code, output = code_and_output(block)
        if output is None:
            turns.warn(place, "the log is cut in this interaction: it has no output")
        last = clean(code, report)
        call_id = f"interaction {m[1]}"
        around = clean(FENCE.sub("", said[i]).strip(), report) if said else ""
        call = ToolCall("python", last, call_id)
        turns.add(Message("assistant", around, calls=(call,), place=place))
        if output is not None:
            report.met()
            turns.add(Message("tool", clean(output, report), call_id=call_id, place=place))
    return "complete_task(" in last


def code_and_output(block: str) -> tuple[str, str | None]:
    """Return the code of a block and its output, None where the block is cut before it.

    >>> code_and_output("```python\\nprint(1)\\n```\\n\\n```\\n1\\n```\\n")
    ('print(1)', '1')
    """
    found = CODE.match(block)
    # Code may hold fences of its own: the one that another fence follows ends it.
    for m in re.finditer(r"\n```[ \t]*\n\s*```\w*\n", block):
        code = re.sub(r"\A\s*```(?:python)?\n", "", block[: m.start()])
        return code, block[m.end() :].rstrip().removesuffix("```").removesuffix("\n")
    if found:
        return found[1], found[2]
    return re.sub(r"\A\s*```(?:python)?\n", "", block).rstrip(), None


def instruction_of(folder: Path) -> str:
    """Return the instruction that the task's database changes hold, "" if it is not there."""
    here = Source(folder)
    path = here.inner("dbs", "supervisor.jsonl")
    if path is None:
        return ""
    for row in Source(path).lines():
        value = row.value
        if not (isinstance(value, list) and len(value) > 1 and isinstance(value[0], str)):
            continue
        columns = re.match(r"INSERT INTO tasks \((.*?)\) VALUES", value[0])
        names = [c.strip() for c in columns[1].split(",")] if columns else []
        if "instruction" in names and isinstance(value[1], list):
            said = dict(zip(names, value[1], strict=False)).get("instruction")
            if isinstance(said, str):
                return said
    return ""


def evaluation(folder: Path) -> tuple[float | None, dict[str, Any]]:
    """Return (outcome, checks) from the task's report or the experiment's evaluations."""
    report = Source(folder).inner("evaluation", "report.md")
    if report is not None and report.stat().st_size < 1 << 20:
        text = report.read_text("utf-8", "replace")
        failed, passed = FAILED.search(text), PASSED.search(text)
        if failed:
            checks = {"tests_failed": int(failed[1])}
            if passed:
                checks["tests_passed"] = int(passed[1])
            return float(int(failed[1]) == 0), checks
    folders = folder.parent.parent / "evaluations"
    for path in sorted(folders.glob("*.json"))[:100] if folders.is_dir() else []:
        if path.is_symlink() or path.stat().st_size > 64 << 20:
            continue
        try:
            own = table(decode(path.read_text("utf-8", "replace")), "individual", folder.name)
        except BrokenJSON:
            continue
        if isinstance(own.get("success"), bool):
            return float(own["success"]), {"difficulty": own.get("difficulty")}
    return None, {}
