"""One word, one token: the tiny policy's vocabulary, and how an episode becomes token ids.

    <bos> prompt words <act>  action words <end>  answer words <act>  action words <end> ...

``<end>`` is sampled by the policy and counts as its token; ``<act>``, like the answer, is glue.
Sampled ids are never turned into text and back: text is for the world and the judge, ids are for
the trainer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ..errors import ConfigError

SPECIALS = ("<pad>", "<bos>", "<end>", "<act>", "<unk>")
PAD, BOS, END, ACT, UNK = range(len(SPECIALS))


def build_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer of the special tokens and of ``words``, sorted.

    Args:
        words: every word of the worlds, in any order, with repeats.
    Raises:
        ConfigError: for a word that is empty or holds white space or is a special token.
    """
    found = sorted(set(words))
    for word in found:
        if word.split() != [word] or word in SPECIALS:
            raise ConfigError(f"want words without white space and no special token; got {word!r}")
    vocab = {w: i for i, w in enumerate([*SPECIALS, *found])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<end>",
        unk_token="<unk>",
        additional_special_tokens=["<act>"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a policy folder, checked to be the one that was saved.

    The class is named here because AutoTokenizer may reload a home-made tokenizer as another
    class, with other ids.

    Raises:
        ConfigError: when special tokens have moved or a word does not survive a round trip.
    """
    tokenizer = PreTrainedTokenizerFast.from_pretrained(path)
    check_tokenizer(tokenizer)
    return tokenizer


def check_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    """Raise ConfigError unless every id survives ids -> text -> ids and specials are in place."""
    ids = list(range(len(tokenizer)))
    words = tokenizer.convert_ids_to_tokens(ids)
    if tuple(words[: len(SPECIALS)]) != SPECIALS:
        raise ConfigError(f"want special tokens {SPECIALS} first; got {words[: len(SPECIALS)]}")
    back = tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    if back != ids:
        at = next(i for i, (a, b) in enumerate(zip(ids, back, strict=False)) if a != b)
        raise ConfigError(f"want id {at} ({words[at]!r}) back from a round trip; got {back[at]}")


class Words:
    """Text to ids and back by one dictionary: what the rollout loop uses.

    Args:
        tokenizer: a tokenizer made by ``build_tokenizer``.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        check_tokenizer(tokenizer)
        self._id = dict(tokenizer.get_vocab())
        self._word = [w for w, _ in sorted(self._id.items(), key=lambda item: item[1])]

    def __len__(self) -> int:
        return len(self._word)

    def ids(self, text: str) -> list[int]:
        """Ids of the words of ``text``.

        Raises:
            ConfigError: naming the first word outside of the vocabulary.
        """
        try:
            return [self._id[w] for w in text.split()]
        except KeyError as e:
            raise ConfigError(
                f"want words of the policy's vocabulary of {len(self)}; got {e.args[0]!r} in "
                f"{text[:60]!r} (warm up a policy on this world first: rubricnb warm-up)"
            ) from None

    def text(self, ids: Sequence[int]) -> str:
        """Words of ``ids`` joined by blanks; a final ``<end>`` is left out."""
        words = [self._word[i] for i in ids]
        if words and words[-1] == "<end>":
            words.pop()
        return " ".join(words)

    def prompt(self, text: str) -> list[int]:
        """``<bos> text <act>``."""
        return [BOS, *self.ids(text), ACT]

    def answer(self, text: str) -> list[int]:
        """``text <act>``: what the world puts between two actions."""
        return [*self.ids(text), ACT]

    def action(self, text: str) -> list[int]:
        """``text <end>``: a demonstrated action."""
        return [*self.ids(text), END]
