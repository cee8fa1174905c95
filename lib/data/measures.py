"""Properties of a text that can be measured without a model.

They serve three readers: the proxies that a stimulus pair must hold constant, the
measurable labels that ``smol-armo`` is trained on, and the confounds shown on the data
page. All are deterministic functions of one string.
"""

from __future__ import annotations

import math
import re
from collections import Counter

WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*")
TOKEN = re.compile(r"\w+|[^\w\s]")
SENTENCE_END = re.compile(r"(?<![.!?])[.!?]+(?=[\s\"'”’)\]]|$)|\n+")
VOWELS = re.compile(r"[aeiouy]+")
# A last e, or that of -ed, makes no syllable; after a consonant the e of -le does (ta-ble).
SILENT_E = re.compile(r"(?:[^eyl]e|[aeiouy]le|[^aeioutdy]ed)$")

# Opening phrases of refusals; matched in the first 160 characters only, so that an answer
# that mentions what it can't cover somewhere later does not count as one.
REFUSAL = re.compile(
    r"\b(?:i(?:'m| am) (?:sorry|afraid|unable|not able|not comfortable|not going to)"
    r"|i (?:can(?:'t|not| not)|won't|will not|couldn't|must decline|have to decline|refuse)"
    r"|i(?:'d| would) (?:rather not|prefer not)|as an ai\b[^.]*\b(?:can't|cannot|unable)"
    r"|(?:that|this) is(?:n't| not) something i can)",
    re.IGNORECASE,
)

FORMATTING = re.compile(
    r"^\s{0,3}(?:#{1,6}\s|[-*+•]\s|\d+[.)]\s|>\s|```|\|.*\|)|\*\*[^*\n]+\*\*|`[^`\n]+`",
    re.MULTILINE,
)


def words(text: str) -> list[str]:
    """Alphabetic words, apostrophes inside kept."""
    return WORD.findall(text)


def n_tokens(text: str) -> int:
    """Words, numbers and punctuation marks: a length that needs no tokenizer."""
    return len(TOKEN.findall(text))


def n_sentences(text: str) -> int:
    """Stretches with a word in them between sentence ends or line breaks; at least 1."""
    return max(1, sum(bool(WORD.search(part)) for part in SENTENCE_END.split(text)))


def n_syllables(word: str) -> int:
    """Vowel groups, less a silent final e; at least 1.

    The usual dictionary-free estimate: right for about nine English words in ten.
    """
    word = word.lower()
    count = len(VOWELS.findall(word))
    if SILENT_E.search(word):
        count -= 1
    return max(1, count)


def flesch(text: str) -> float:
    """Flesch reading ease: 206.835 − 1.015 words/sentence − 84.6 syllables/word.

    Source: Flesch (1948), "A new readability yardstick". Higher reads more easily; plain
    prose lies between 60 and 80. NaN for a text without words.
    """
    found = words(text)
    if not found:
        return math.nan
    syllables = sum(map(n_syllables, found))
    return 206.835 - 1.015 * len(found) / n_sentences(text) - 84.6 * syllables / len(found)


def formatting(text: str) -> int:
    """Markdown marks: headings, list items, quotes, tables, fences, bold and code spans."""
    return len(FORMATTING.findall(text))


def is_refusal(text: str) -> bool:
    """Does the text open by declining? A phrase list, not a judgement."""
    return bool(REFUSAL.search(text[:160].replace("’", "'")))


def lexical_complexity(text: str) -> float:
    """Mean word length in letters; NaN for a text without words."""
    found = words(text)
    return sum(map(len, found)) / len(found) if found else math.nan


def repetition(text: str) -> float:
    """Share of word 3-grams that occurred before in the same text; 0 below three words."""
    found = [word.lower() for word in words(text)]
    grams = Counter(zip(found, found[1:], found[2:], strict=False))
    total = sum(grams.values())
    return 1 - len(grams) / total if total else 0.0


def copied(prompt: str, text: str) -> int:
    """Distinct words of four or more letters that a text has from its prompt."""
    return len({w.lower() for w in words(prompt) if len(w) > 3} & {w.lower() for w in words(text)})


def ngrams(text: str, n: int = 5) -> frozenset[tuple[str, ...]]:
    """Lower-case word n-grams of a text; the whole text when it has fewer words."""
    found = [token.lower() for token in TOKEN.findall(text)]
    if len(found) < n:
        return frozenset([tuple(found)])
    return frozenset(tuple(found[i : i + n]) for i in range(len(found) - n + 1))


def jaccard(a: frozenset, b: frozenset) -> float:
    """|a ∩ b| / |a ∪ b|; 0 when both are empty."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0
