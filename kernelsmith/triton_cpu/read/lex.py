"""Tokens of printed TTIR.

The text comes from outside the process, so it is hostile: size is bounded, every character belongs to a token or is
refused, and the pattern has no nested repetition, so time is linear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelsmith.triton_cpu.errors import TtirError

MAX_TEXT = 8 << 20
MAX_DIGITS = 400

_PATTERN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*)
  | (?P<newline>\n)
  | (?P<string>"(?:[^"\\\n]|\\.)*+")
  | (?P<value>%[\w$.\-]+(?:\#\d+)?)
  | (?P<alias>\#[\w$.]*)
  | (?P<block>\^[\w$.\-]+)
  | (?P<symbol>@(?:[\w$.\-]+|"(?:[^"\\\n]|\\.)*+"))
  | (?P<type>![\w$.]+)
  | (?P<dims>tensor<(?:\d+x)*)
  | (?P<arrow>->)
  | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))
  | (?P<word>[A-Za-z_][\w$.]*)
  | (?P<punct>[()\[\]{}<>=:,*|?/\-+])
""",
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is a group name of the pattern; for punctuation it is the character itself."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Split TTIR text into tokens, newlines kept, blanks and comments dropped, one `end` token last.

    Raises:
        TtirError: the text or a number in it is too long, or it has a character that no TTIR has.
    """
    if len(text) > MAX_TEXT:
        raise TtirError(f"TTIR text has {len(text)} characters; at most {MAX_TEXT} are read")
    tokens: list[Token] = []
    position = 0
    line = 1
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            raise TtirError(f"line {line} of the TTIR: unexpected character {text[position]!r}")
        kind = match.lastgroup or ""
        position = match.end()
        if kind == "skip":
            continue
        token = match.group()
        if kind in ("number", "dims") and len(token) > MAX_DIGITS:
            raise TtirError(f"line {line} of the TTIR: {token[:20]}... has more than {MAX_DIGITS} characters")
        tokens.append(Token(token if kind in ("punct", "arrow") else kind, token, line))
        if kind == "newline":
            line += 1
    tokens.append(Token("end", "", line))
    return tokens
