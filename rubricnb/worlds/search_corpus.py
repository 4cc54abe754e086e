"""A made-up encyclopaedia and multi-hop questions about it, generated from a seed.

Persons are born in towns and work for firms, firms have a seat and a head, towns a river and a
mayor, rivers flow into seas. One passage tells the facts of one subject. A question follows two to
four facts from a person or firm to its answer. Splits share no name but first names, and no fact.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..seeds import child_seed
from .base import WorldTask

# relation -> subject's kind, object's kind, sentence, noun phrase of the object around the subject
RELATIONS: Mapping[str, tuple[str, str, str, str]] = {
    "born": ("person", "town", "{x} was born in {y} .", "the town where {x} was born"),
    "works": ("person", "firm", "{x} works for {y} .", "the firm that {x} works for"),
    "seat": ("firm", "town", "{x} has its seat in {y} .", "the town where {x} has its seat"),
    "head": ("firm", "person", "the head of {x} is {y} .", "the head of {x}"),
    "river": ("town", "river", "the river of {x} is {y} .", "the river of {x}"),
    "mayor": ("town", "person", "the mayor of {x} is {y} .", "the mayor of {x}"),
    "sea": ("river", "sea", "{x} flows into {y} .", "the sea that {x} flows into"),
}
SPLITS = ("train", "dev", "test")
SIZES = {"person": 36, "firm": 12, "town": 14, "river": 8, "sea": 4}
FIRST = ("tavo", "mira", "elun", "dasko", "ilse", "peral", "nuri", "oskan", "rilla", "veto")
HOPS = (2, 3, 4)
VARIANTS = 3  # questions of one chain of relations
_HEAD = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "kr", "st")
_VOWEL = ("a", "e", "i", "o", "u")
_TAIL = {
    "person": ("nen", "rik", "las"),
    "firm": ("vex", "dyne", "corp"),
    "town": ("by", "ford", "wick"),
    "river": ("ael", "ione", "ush"),
    "sea": ("mar", "thal", "gulf"),
}


@dataclass(frozen=True, eq=False)
class Corpus:
    """One split's encyclopaedia.

    Args:
        passages: title -> text.
        facts: (subject, relation) -> object.
        kinds: name -> kind.
    """

    passages: Mapping[str, str]
    facts: Mapping[tuple[str, str], str]
    kinds: Mapping[str, str]


def _word(rng: random.Random, kind: str, used: set[str]) -> str:
    while True:
        stem = "".join(rng.choice(_HEAD) + rng.choice(_VOWEL) for _ in range(2))
        word = stem + rng.choice(_TAIL[kind])
        if word not in used:
            used.add(word)
            return word


@lru_cache(maxsize=8)
def corpora(seed: int) -> Mapping[str, Corpus]:
    """Return the corpora of all splits; names are dealt from one stream, so none is used twice."""
    rng = random.Random(child_seed(seed, "search names"))
    used: set[str] = set()
    return {split: _corpus(rng, used) for split in SPLITS}


def _corpus(rng: random.Random, used: set[str]) -> Corpus:
    names = {k: [_word(rng, k, used) for _ in range(n)] for k, n in SIZES.items()}
    names["person"] = [f"{rng.choice(FIRST)} {family}" for family in names["person"]]
    kinds = {name: kind for kind, members in names.items() for name in members}
    facts, passages = {}, {}
    for name, kind in kinds.items():
        sentences = []
        for relation, (subject, target, sentence, _) in RELATIONS.items():
            if subject == kind:
                facts[name, relation] = y = rng.choice([n for n in names[target] if n != name])
                sentences.append(sentence.format(x=name, y=y))
        passages[name] = " ".join(sentences) or f"{name} is a sea ."
    return Corpus(passages, facts, kinds)


def chains(hops: int) -> list[tuple[str, ...]]:
    """All chains of that many relations that start at a person or firm."""
    found: list[tuple[str, ...]] = [
        (r,) for r, v in RELATIONS.items() if v[0] in ("person", "firm")
    ]
    for _ in range(hops - 1):
        found = [
            (*c, r) for c in found for r, v in RELATIONS.items() if v[0] == RELATIONS[c[-1]][1]
        ]
    return found


def follow(corpus: Corpus, start: str, chain: tuple[str, ...]) -> list[str]:
    """Return the subjects on the way and, last, the answer."""
    way = [start]
    for relation in chain:
        way.append(corpus.facts[way[-1], relation])
    return way


def ask(start: str, chain: tuple[str, ...]) -> str:
    """Return the question as words.

    >>> ask("tavo renen", ("born", "river"))
    'what is the river of the town where tavo renen was born'
    """
    phrase = start
    for relation in chain:
        phrase = RELATIONS[relation][3].format(x=phrase)
    return f"what is {phrase}"


def read_question(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return start and chain of a question's text, None where it is none of ours.

    >>> read_question("what is the river of the town where tavo renen was born")
    ('tavo renen', ('born', 'river'))
    """
    if not text.startswith("what is the "):
        return None
    rest, chain = text.removeprefix("what is "), []
    while rest.startswith("the "):
        for relation, (*_, phrase) in RELATIONS.items():
            before, after = phrase.split("{x}")
            if rest.startswith(before) and rest.endswith(after):
                rest = rest[len(before) : len(rest) - len(after)]
                chain.append(relation)
                break
        else:
            return None
    return rest, tuple(reversed(chain))


def make_tasks(split: str, scenarios: int, seed: int) -> tuple[WorldTask, ...]:
    """Return a split's questions: a scenario is a chain of relations, its variants start elsewhere.

    A chain whose way comes back to a name is left out: its question could be cut short.
    """
    corpus, out = corpora(seed)[split], []
    for hops in HOPS:
        rng = random.Random(child_seed(seed, "search tasks", split, hops))
        for number in range(scenarios):
            chain = rng.choice(chains(hops))
            kind = RELATIONS[chain[0]][0]
            starts = sorted(n for n, k in corpus.kinds.items() if k == kind)
            rng.shuffle(starts)
            good = [s for s in starts if len(set(follow(corpus, s, chain))) == hops + 1]
            name = f"search_{seed}_{split}_{hops}_{number:03d}"
            for v, start in enumerate(good[:VARIANTS], start=1):
                spec = {"way": follow(corpus, start, chain), "split": split}
                out.append(WorldTask(f"{name}_{v}", name, split, ask(start, chain), hops - 1, spec))
    return tuple(out)
