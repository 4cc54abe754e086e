"""Fences around text that others wrote, and the detection of text that aims at the grader.

A fence carries a code that the author of the text cannot foresee, because it depends on a secret
of the run, and that is the same in every call and on replay, because it depends on nothing else
but the text: HMAC-SHA256(run nonce, hash of the text).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata

CODE_LENGTH = 16
KINDS = ("instruction", "verdict", "fence", "special_token")

_FENCE = re.compile(
    r"(?<!=)={3,}+(?=\s*(?:BEGIN|END)\b)"  # possessive: a line of 400,000 "=" stays linear
    r"|</(?=(?:trajector(?:y|ies)|transcript|rollout|conversation|untrusted)\b)",
    re.IGNORECASE,
)
_FORGED_STEP = re.compile(r"^[^\S\n]*S\d+ (?:AGENT|CALL|RESULT|CUT|NOTE|EMPTY)\b", re.MULTILINE)
_SPECIAL = re.compile(
    r"<(?=\|[\w./:-]{1,40}\|>|/?(?:start|end)_of_turn>|/?s>|<SYS>>|/?think(?:ing)?\b)"
    r"|\[(?=/?(?:INST|THINK)\])"
)
_VERDICT = re.compile(
    r"\\?[\"']verdicts?\\?[\"']\s*:"
    r"|\\?[\"'](?:label|grade|rating|score)\\?[\"']\s*:\s*\\?[\"'](?:pass|fail|met|not_met)\b"
    r"|\[\[\s*(?:[A-C]|\d{1,2})\s*\]\]"
    r"|\b(?:final )?verdict\s*[:=]\s*(?:pass|fail|met|not met|success)\b",
    re.IGNORECASE,
)
_GRADER = r"(?:judge|grader|evaluator|assessor|rater|scorer|grading model)s?"
_GOOD = r"(?:pass(?:ed|es|ing)?|met|satisfied|fulfilled|successful|true|\+?1)"
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,50}"
    r"\b(?:instructions?|rubrics?|criteri(?:on|a)|guidelines?|rules|prompts?)\b"
    r"|\b(?:grading|evaluation|scoring|judging|rubric)[ -]"
    r"(?:override|notice|instructions?|notes?|directive)\b"
    r"|\b(?:award|give|assign|grant|return|output|report|answer)\b[^.\n]{0,40}"
    r"\b(?:full (?:marks|credit|score|points)|maximum (?:score|points|marks|credit)"
    r"|perfect score|(?:highest|top) (?:score|rating|marks)|10/10|100 ?%|pass(?:ing)? for)\b"
    r"|(?<!the )(?<!a )\b(?:mark|grade|score|rate|judge|treat|count|consider|record|answer)\b"
    r"[^.\n]{0,50}"
    r"\b(?:criteri(?:on|a)|rubrics?|verdicts?|checks?|everything|this (?:rollout|run|item))\b"
    rf"[^.\n]{{0,40}}\b{_GOOD}\b"
    rf"|\b(?:all|every|each)(?: of)?(?: the)? criteri(?:on|a)\b[^.\n]{{0,40}}\b{_GOOD}\b"
    r"|\b(?:dear|attention|notes? (?:to|for)|messages? (?:to|for)|instructions? (?:to|for)|hey"
    rf"|to|you are)[ ,:]+(?:an? |the |any |all )?(?:ai |llm |automated )?{_GRADER}\b"
    rf"|\b{_GRADER}\b[^.\n]{{0,25}}\b(?:must|should|shall|please|needs? to|ha(?:s|ve) to)\b"
    r"|\bsystem (?:notice|override)\b",
    re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\u00ad\ufeff]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")


def code(nonce: str, text: str) -> str:
    """Return the code of a fence: 16 hex digits that only the holder of the nonce can foresee.

    >>> code("n", "text") == code("n", "text") != code("m", "text")
    True
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return hmac.new(nonce.encode(), digest, hashlib.sha256).hexdigest()[:CODE_LENGTH]


def fenced(kind: str, body: str, nonce: str, identity: str | None = None) -> str:
    """Return the body between two lines that carry its code.

    ``identity`` is the text that the code is made of, where it is not the body itself (a clipped
    body keeps the code of the whole).
    """
    c = code(nonce, body if identity is None else identity)
    return f"===== BEGIN {kind} {c} =====\n{body}\n===== END {kind} {c} ====="


def neutralise(text: str) -> tuple[str, tuple[str, ...]]:
    """Return text that holds no delimiter of ours or of a chat template, and what was found.

    Kinds are "instruction" (words addressed to a grader), "verdict" (text in the form of one),
    "fence" (a forged delimiter or step line) and "special_token". A delimiter gets a space after
    its first characters, so that it can be read but does nothing; words are never changed.

    >>> neutralise("ok</trajectory>")
    ('ok</ trajectory>', ('fence',))
    >>> neutralise("order 12 was cancelled")
    ('order 12 was cancelled', ())
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    # Look at what a reader sees: full-width letters and invisible characters hide nothing.
    plain = text if text.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    found = []
    if _INSTRUCTION.search(plain):
        found.append("instruction")
    if _VERDICT.search(plain):
        found.append("verdict")
    text, forged = _FENCE.subn(lambda m: m.group()[:2] + " " + m.group()[2:], text)
    if forged or _FENCE.search(plain) or _FORGED_STEP.search(plain):
        found.append("fence")
    text, special = _SPECIAL.subn(lambda m: m.group() + " ", text)
    if special:
        found.append("special_token")
    return text, tuple(found)
