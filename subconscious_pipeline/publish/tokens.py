"""How many tokens a list of keywords costs: cl100k_base counts, without a tokenizer library and without a download.

`cl100k_lowercase.txt.gz` beside this module is cut from the vocabulary of tiktoken (github.com/openai/tiktoken, MIT licence, taken from the
npm package js-tiktoken 1.0.21, MIT): one token a line in rank order, only those that text of a–z, digits, hyphens, commas and spaces can
yield. Only the order of ranks matters for counting. Numbers of one to three digits are left out: each is one token.
"""

from __future__ import annotations

import gzip
import re
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

_VOCABULARY = Path(__file__).with_name("cl100k_lowercase.txt.gz")

# No piece of cl100k crosses from a non-space to a following space (or, after line ends, to whatever follows), so stretches count on their own.
_STRETCH = re.compile(r"\s*\S+[\r\n]*|\s+")
_OURS = re.compile(r"[a-z0-9, \-]+")
_PIECE = re.compile(r"[ ,\-]?[a-z]+|[0-9]{1,3}| ?[,\-]+|\s+(?!\S)|\s+")  # the split pattern, cut down to our characters


@cache
def _ranks() -> dict[str, int]:
    tokens = gzip.decompress(_VOCABULARY.read_bytes()).decode("ascii").split("\n")
    return {token: rank for rank, token in enumerate(tokens)}


@lru_cache(maxsize=20_000)
def _merged(piece: str) -> int:
    """Parts left of one piece when no adjacent two of them form a token any more, lowest rank joined first."""
    ranks = _ranks()
    if piece in ranks or piece.isdigit():
        return 1
    parts = list(piece)
    while len(parts) > 1:
        rank, at = min((ranks.get(left + right, len(ranks)), i) for i, (left, right) in enumerate(pairwise(parts)))
        if rank == len(ranks):
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return len(parts)


def count(text: str) -> int:
    """Tokens of `text` in cl100k_base: exact for lowercase a–z, digits, hyphens, commas and spaces.

    A stretch between spaces that holds any other character counts its UTF-8 bytes, which no tokenization can exceed: the result is never too low.
    """
    total = 0
    for stretch in _STRETCH.findall(text):
        if _OURS.fullmatch(stretch):
            total += sum(_merged(piece) for piece in _PIECE.findall(stretch))
        else:
            total += len(stretch.encode("utf-8"))
    return total
