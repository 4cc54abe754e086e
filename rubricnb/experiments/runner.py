"""All trainings of a profile, two at a time, resumable: what is finished and verified is reused."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError, RunError
from .profiles import STUDY, Profile
from .progress import Progress
from .records import Run, RunKey, verify, write_json
from .worker import TRAIN


@dataclass(eq=False)
class _Job:
    key: RunKey
    folder: Path
    settings: Mapping[str, Any]
    train: str
    process: subprocess.Popen | None = field(default=None, repr=False)
    stopped: bool = False

    def steps(self) -> int:
        """Optimizer steps recorded so far."""
        try:
            return (self.folder / "train.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def run(self) -> Run:
        if self.stopped:
            raise RunError(f"{self.key}: stopped before it started")
        self.folder.mkdir(parents=True, exist_ok=True)
        job = self.folder / "job.json"
        k = self.key
        write_json(
            job,
            {
                "policy": k.policy,
                "arm": k.arm,
                "seed": k.seed,
                "folder": str(self.folder.resolve()),
                "settings": dict(self.settings),
                "train": self.train,
            },
        )
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        with open(self.folder / "log.txt", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rubricnb.experiments.worker", str(job)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **threads, "TOKENIZERS_PARALLELISM": "false"},
            )
            code = self.process.wait()
        if code != 0:
            raise RunError(
                f"{self.key}: want a training that ends well; got exit status {code} "
                f"(see {self.folder / 'log.txt'}):\n{_tail(self.folder / 'log.txt')}"
            )
        return verify(self.folder, self.key, self.settings)

    def stop(self) -> None:
        self.stopped = True
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def _tail(path: Path, lines: int = 12) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def keys(profile: Profile, study: Mapping[str, Sequence[str]] = STUDY) -> list[RunKey]:
    """Return every training of a profile, all arms of the first seed before the next seed."""
    return [RunKey(p, a, s) for s in profile.seeds for p, arms in study.items() for a in arms]


def set_aside(folder: Path) -> Path:
    """Rename a folder that cannot be trusted, so that nothing is lost, and return its new path."""
    n = 1
    while (new := folder.with_name(f"{folder.name}.aside{n}")).exists():
        n += 1
    folder.rename(new)
    return new


def _finished(key: RunKey, folder: Path, settings: Mapping, say: Callable[[str], None]):
    """The verified run of a folder, or None where it must be trained; bad folders are set aside."""
    if not (folder / "done.json").exists():
        told = _told(folder)
        if told is not None and told != json.loads(json.dumps(dict(settings))):
            say(f"{key}: unfinished with other settings; kept as {set_aside(folder).name}")
        return None
    try:
        return verify(folder, key, settings)
    except RunError as e:
        say(f"{e}; kept as {set_aside(folder).name} and trained again")
        return None


def _told(folder: Path) -> Any:
    try:
        return json.loads((folder / "job.json").read_text(encoding="utf-8"))["settings"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def train_all(
    profile: Profile,
    out: str | os.PathLike[str] = "runs",
    *,
    study: Mapping[str, Sequence[str]] = STUDY,
    train: str = TRAIN,
    told: Callable[[RunKey], Mapping[str, Any]] | None = None,
    lock: str = ".lock",
    say: Callable[[str], None] | None = None,
) -> list[Run]:
    """Train whatever is not finished, ``profile.workers`` at a time, and return all runs.

    A finished run is reused after its hashes were checked. A corrupt one, or one made with other
    settings, is set aside under another name, said so, and trained again. An unfinished one is
    continued by the trainer. The base of each policy goes first, since it makes the warm-up
    checkpoint that the other arms of the policy start from. On Ctrl-C the trainings are stopped;
    each goes on from its last step at the next call.

    Args:
        profile: seeds, steps and the rest.
        out: folder that holds the profiles' folders.
        study: policy -> arms.
        train: "module:function" called in the worker as (policy, arm, seed, folder, settings).
        told: the settings of each training; None for the profile's, the same for all.
        lock: file that keeps a second command out; commands of other seeds have others.
        say: where lines of progress go; None prints them.
    Raises:
        RunError: naming every training that failed, after the others have ended.
    """
    home = Path(out) / profile.name
    wanted = keys(profile, study)
    if not wanted:
        raise ConfigError(f"want a study with at least one arm; got {dict(study)}")
    settings = told or (lambda key: profile.settings)
    with _alone(home, lock), Progress(say) as progress:
        done, jobs = {}, []
        for key in wanted:
            run = _finished(key, key.folder(home), settings(key), progress.say)
            if run is not None:
                done[key] = run
            else:
                jobs.append(_Job(key, key.folder(home), settings(key), train))
        progress.start(len(wanted), len(done), profile.steps)
        failed = _run(jobs, profile.workers, done, progress)
    if failed:
        text = "\n".join(failed)
        raise RunError(f"{len(failed)} of {len(wanted)} trainings failed:\n{text}")
    return [done[k] for k in wanted]


@contextmanager
def _alone(home: Path, lock: str) -> Iterator[None]:
    """Hold the profile's folder, so that two commands do not train the same arm at once."""
    home.mkdir(parents=True, exist_ok=True)
    with open(home / lock, "w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{home}: want the folder for this run alone; got one in use") from None
        yield


def _run(jobs: list[_Job], workers: int, done: dict, progress: Progress) -> list[str]:
    """Run the jobs; fill ``done``; return what failed."""
    failed: list[str] = []
    started = set()
    with ThreadPoolExecutor(workers) as pool:
        waiting: dict[Future, _Job] = {}
        try:
            while len(started) < len(jobs) or waiting:
                for job in jobs:
                    free = len(waiting) < workers
                    if free and job.key not in started and _ready(job, jobs, waiting.values()):
                        started.add(job.key)
                        waiting[pool.submit(job.run)] = job
                ended, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ended:
                    job = waiting.pop(future)
                    try:
                        done[job.key] = future.result()
                        progress.finished(job.key, done[job.key].done["seconds"])
                    except RunError as e:
                        failed.append(str(e))
                        progress.say(str(e))
                progress.tick({str(j.key): j.steps() for j in waiting.values()})
        except BaseException:
            for job in jobs:
                job.stop()
            raise
    return failed


def _ready(job: _Job, jobs: list[_Job], running) -> bool:
    """Whether nothing that is running makes the warm-up checkpoint that this job starts from.

    The first job of a policy that starts makes it (or finds it made); the others wait for its end.
    """
    first = next(j for j in jobs if j.key.policy == job.key.policy)
    return job is first or (first.process is not None and first not in running)
