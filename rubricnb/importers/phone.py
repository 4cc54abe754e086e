"""Which runs of digits are phone numbers: possible by ``phonenumbers``, and written like one."""

from __future__ import annotations

import re
from functools import lru_cache

import phonenumbers

# A quick look before the expression itself.
DIGITS = re.compile(r"\d[\d ().\u00a0\u2010-\u2015/-]{5}")
# A run of digits with single separators between them (") " and " (" count as one).
CANDIDATE = re.compile(
    r"(?:(?<=\\[nrt])|(?<![\w.#/=$€£:%@+-]))(?:\+|\(\+?|00)?"
    r"\d(?:(?:[ .\u00a0\u2010-\u2015/-]|\)[ -]?|[ -]?\()?\d){6,24}(?![\w@%]|[.:/-]\w)"
)
SPOKEN = re.compile(
    r"(?i)(?:phone|mobile|\bcell|\btel\b|\btel:|\bfax|whatsapp|\bsms\b|telefon|☎"
    r"|\b(?:call|dial|text|reach|contact)(?:ed|ing)? (?:me|us|him|her|them|at|on)\b"
    r")[\w \t.:#\"'\\=>()-]{0,16}\Z"
)
PHONE_NAME = re.compile(r"(?i)phone|mobile|(?:^|_)(?:tel|fax|cell|whatsapp)(?:_|$)")
PHONE_VALUE = re.compile(r"\s*\+?[\d ()./-]{7,24}\s*")
DATE = re.compile(
    r"\b(?:\d{4}[-/. ]\d{1,2}[-/. ]\d{1,2}|\d{1,2}[-/. ]\d{1,2}[-/. ]\d{4}|(?:19|20)\d{6})(?!\d)"
)
NOT_PHONE = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}\Z|\d+\.\d+\Z|\d+(?:\s\d{1,2})?/\d+\Z")
# Also numbers that no one has, such as 555-0100: made-up logs are full of them.
AMERICAN = re.compile(r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])\d{3}[ .-]\d{4}")
REGIONS = ("US", "GB", "DE", "FR", "IN", "AU", "ES", "IT", "JP", "BR")


def looks_like_phone(text: str, before: str) -> bool:
    """Whether a run of digits is a phone number, given what stands before it.

    With a plus it must be valid. Without, it must be spoken of as one, or be grouped the way that
    numbers of a country are and valid there; digits alone never are unless a word says so.
    """
    digits = sum(c.isdigit() for c in text)
    if not 7 <= digits <= 15 or text.count("(") != text.count(")"):
        return False
    spoken = SPOKEN.search(before[-48:]) is not None
    if text.startswith(("+", "(+", "00")):
        number = "+" + re.sub(r"\D", "", text).lstrip("0")
        return _valid(number, None) or (digits >= 10 and (spoken or not text[1:].isdigit()))
    if DATE.search(text) or (NOT_PHONE.match(text) and not spoken):
        return False
    if spoken or AMERICAN.fullmatch(text):
        return True
    groups = re.findall(r"\d+", text)
    # 555-123-4567 and (020) 7946 0958 are grouped like phone numbers; 1234-56789012 is not.
    if len(groups) < 3 and "(" not in text:
        return False
    if len(groups) > 5 or max(map(len, groups)) > 5 or len(set(re.sub(r"[\d()]", "", text))) > 2:
        return False
    # Grouped in fours throughout is a card or an account.
    if len(groups) > 2 and all(len(g) == 4 for g in groups):
        return False
    # A trunk prefix or a bracketed area code is how other countries write theirs.
    regions = REGIONS if text[0] in "(0" else REGIONS[:1]
    return any(_valid(text, region) for region in regions)


@lru_cache(maxsize=4096)
def _valid(text: str, region: str | None) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False
