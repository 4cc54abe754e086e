"""Phases 4 and 5: one rollout's verdicts on a rubric, and the steps that decided them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..grading import OVERRIDE, unanimous
from ..rubric import Criterion, FailedJudgement, Judgement, Label, Rubric, Verdict
from .answers import flagged
from .asking import Asker, together
from .messages import attribution_job, criterion_row, json_lines, scoring_job, verdict_schema
from .quotes import Quotes
from .reading import Reading, read_reply
from .views import Views

QUOTE = 400  # characters of a quotation that an attribution prompt repeats


@dataclass
class Graded:
    """One rollout's judgements in the rubric's order.

    Args:
        row: K judgements.
        failure: why the rollout has no reward, else "".
        evidence: criterion id -> quotation.
        votes: k rows of labels ("failed" for a failed judgement), where k > 1.
        attribution: criterion id -> the explanation of the attribution call.
        attribution_failure: why no step is cited, else "".
        invented: answers to criteria that do not exist.
    """

    row: tuple[Judgement, ...]
    failure: str = ""
    evidence: dict[str, str] = field(default_factory=dict)
    votes: list[list[str]] = field(default_factory=list)
    attribution: dict[str, str] = field(default_factory=dict)
    attribution_failure: str = ""
    invented: int = 0


class Rollout:
    """Grades rollout g of a group."""

    def __init__(self, asker: Asker, views: Views, g: int, rubric: Rubric) -> None:
        self.asker, self.views, self.g, self.rubric = asker, views, g, rubric
        self.config = asker.config
        self.n_steps = views.prepared[g].n_steps
        self.inline = self.config.attribution == "inline"

    async def grade(self) -> Graded:
        """Return the rollout's judgements: k scoring calls, their votes, then the steps."""
        readings = await together(self._score(v) for v in range(self.config.votes))
        out = self._vote(readings)
        if out.failure:
            return out
        if self.config.attribution == "separate":
            await self._attribute(out)
        out.row = tuple(self._checked(j, out.evidence) for j in out.row)
        return out

    # Scoring

    async def _score(self, vote: int) -> Reading:
        """One vote: all criteria, then once more those without a usable answer."""
        reading = await self._ask_scores(self.rubric.criteria, vote, repair=False)
        if reading.problem:
            return reading
        wanted = [
            c
            for c, j in zip(self.rubric.criteria, reading.judgements, strict=True)
            if isinstance(j, FailedJudgement) or (self.inline and _uncited(j))
        ]
        if not wanted:
            return reading
        again = await self._ask_scores(wanted, vote, repair=True)
        second = {j.criterion_id: j for j in again.judgements}
        row = tuple(_better(j, second.get(j.criterion_id)) for j in reading.judgements)
        return replace(
            reading,
            judgements=row,
            evidence={**again.evidence, **reading.evidence},
            invented=reading.invented + again.invented,
        )

    async def _ask_scores(
        self, criteria: Sequence[Criterion], vote: int, *, repair: bool
    ) -> Reading:
        clipped = self.views.full(self.g).clipped or self.views.task.clipped
        ids = tuple(c.id for c in criteria)
        return await self.asker.ask(
            "scoring",
            self.views.shared(self.g),
            scoring_job(
                json_lines(criterion_row(c) for c in criteria),
                clipped=clipped,
                inline=self.inline,
                repair=repair,
            ),
            lambda reply: read_reply(
                reply,
                criteria,
                self.n_steps,
                clipped=clipped,
                untrusted=self.views.untrusted(self.g),
            ),
            schema=verdict_schema(ids, steps=self.inline, evidence=True, clipped=clipped),
            sample=vote,
            repair=repair,
            trajectory_id=self.views.ids[self.g],
            vote=vote,
        )

    def _vote(self, readings: Sequence[Reading]) -> Graded:
        """The votes as one row. A vote that cannot be read at all leaves no reward: with it
        missing no criterion could pass any more, and the reward would be -1 for no fault."""
        invented = sum(r.invented for r in readings)
        problem = next((r.problem for r in readings if r.problem), "")
        if problem:
            row = tuple(FailedJudgement(c.id, problem) for c in self.rubric.criteria)
            return Graded(row, f"scoring: {problem}", invented=invented)
        row = unanimous([r.judgements for r in readings])
        out = Graded(row, invented=invented)
        for k, j in enumerate(row):
            source = next((r for r in readings if r.judgements[k] is j), None)
            if source is not None and j.criterion_id in source.evidence:
                out.evidence[j.criterion_id] = source.evidence[j.criterion_id]
        if len(readings) > 1:
            out.votes = [[_word(j) for j in r.judgements] for r in readings]
        if all(isinstance(j, FailedJudgement) for j in row):
            out.failure = "scoring: no criterion got a verdict"
        return out

    # Attribution

    async def _attribute(self, out: Graded) -> None:
        """Ask which steps decided the verdicts, once more where a pass or fail names none."""
        judged = [j for j in out.row if isinstance(j, Verdict)]
        reading = await self._ask_steps(judged, out.evidence, repair=False)
        if reading.problem:
            out.attribution_failure = reading.problem
            return
        said = {j.criterion_id: j for j in reading.judgements}
        wanted = [j for j in judged if j.label is not Label.NOT_APPLICABLE and _open(said, j)]
        if wanted:
            again = await self._ask_steps(wanted, out.evidence, repair=True)
            for j in again.judgements:
                said[j.criterion_id] = _better(said[j.criterion_id], j)
        out.invented += reading.invented
        out.row = tuple(
            attributed(j, said[j.criterion_id]) if isinstance(j, Verdict) else j for j in out.row
        )
        out.attribution = {
            cid: j.reason for cid, j in said.items() if isinstance(j, Verdict) and j.reason
        }

    async def _ask_steps(
        self, judged: Sequence[Verdict], evidence: dict[str, str], *, repair: bool
    ) -> Reading:
        summary = self.config.attribution_view == "summary"
        by_id = {c.id: c for c in self.rubric.criteria}
        criteria = [by_id[j.criterion_id] for j in judged]
        rows = [_judged_row(by_id[j.criterion_id], j, evidence) for j in judged]
        ids = tuple(j.criterion_id for j in judged)
        return await self.asker.ask(
            "attribution",
            self.views.summary(self.g) if summary else self.views.shared(self.g),
            attribution_job(json_lines(rows), n_steps=self.n_steps, summary=summary, repair=repair),
            lambda reply: read_reply(
                reply, criteria, self.n_steps, untrusted=self.views.untrusted(self.g)
            ),
            schema=verdict_schema(ids, steps=True, evidence=False, clipped=False),
            repair=repair,
            trajectory_id=self.views.ids[self.g],
        )

    # Checks

    def _checked(self, j: Judgement, evidence: dict[str, str]) -> Judgement:
        """The judgement with flags for suspicious steps and quotations that do not fit."""
        if not isinstance(j, Verdict):
            return j
        flags = []
        if any(s in self.views.prepared[self.g].flags for s in j.steps):
            flags.append("injection")
        if (quote := evidence.get(j.criterion_id)) and len(quote) < 2000:
            step = self._quotes.first_step(quote)
            if step is None:
                flags.append("quote_not_found")
            elif j.label is Label.FAIL and j.steps and step > max(j.steps):
                flags.append("quote_after_step")
        return flagged(j, *flags) if flags else j

    @property
    def _quotes(self) -> Quotes:
        if not hasattr(self, "_looked_up"):
            self._looked_up = Quotes(self.views.prepared[self.g])
        return self._looked_up


def attributed(v: Verdict, said: Judgement) -> Verdict:
    """Return a scored verdict with the steps that attribution names.

    The label stays scoring's. Where attribution says otherwise a flag "override:LABEL" keeps
    that; where it says not applicable, the criterion cites nothing.
    """
    if isinstance(said, FailedJudgement):
        return v
    flags = [f for f in v.flags if f != "no_evidence" or not said.steps]
    steps = said.steps
    if said.label is not v.label and "insufficient" not in said.flags:
        flags.append(f"{OVERRIDE}{said.label.value}")
        if said.label is Label.NOT_APPLICABLE:
            steps = ()
    return replace(v, steps=steps, dropped=said.dropped, flags=tuple(flags))


def _uncited(j: Judgement) -> bool:
    return isinstance(j, Verdict) and j.label is not Label.NOT_APPLICABLE and not j.steps


def _open(said: dict[str, Judgement], j: Verdict) -> bool:
    """Whether attribution owes a step for a verdict: an override to not applicable does not."""
    answer = said.get(j.criterion_id)
    return answer is None or isinstance(answer, FailedJudgement) or _uncited(answer)


def _better(first: Judgement, second: Judgement | None) -> Judgement:
    """The first answer, mended by the second: a verdict for a failure, steps for a verdict."""
    if isinstance(first, FailedJudgement):
        return second or first
    if isinstance(second, Verdict) and second.label is first.label and second.steps:
        return replace(first, steps=second.steps, dropped=first.dropped + second.dropped)
    return first


def _word(j: Judgement) -> str:
    return j.label.value if isinstance(j, Verdict) else "failed"


def _judged_row(c: Criterion, j: Verdict, evidence: dict[str, str]) -> dict[str, str]:
    row = {**criterion_row(c), "verdict": j.label.value, "reason": j.reason}
    row.pop("description", None)
    if quote := evidence.get(c.id):
        row["evidence"] = quote if len(quote) <= QUOTE else f"{quote[:QUOTE]} ... (shortened)"
    return row
