"""Text from others, made harmless for a terminal.

Agents write task titles, messages and names. What a terminal would obey (escape sequences, carriage returns) and what
would make the eye read another text than is there (bidirectional overrides, invisible characters) is shown as a visible
escape instead: `\\x1b`, `\\u202e`.
"""

import re

# C0 and C1 controls, DEL; soft hyphen; Arabic letter mark; Mongolian vowel separator; zero width space, marks of
# direction; line and paragraph separators; embeddings and overrides; word joiner, invisible operators, isolates; byte
# order mark; interlinear annotation; tags; lone surrogates. The joiners U+200C and U+200D stay: scripts and emoji need
# them. Variation selectors stay for the same reason.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
)
_IN_BLOCK = re.compile(f"[{_UNSEEN}]")
_IN_LINE = re.compile(f"[{_UNSEEN}\t\n]")
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def line(text: str) -> str:
    """The text on one line, with nothing in it that is not seen."""
    return _IN_LINE.sub(_escape, text)


def block(text: str) -> str:
    """The same, but its line breaks and tabs stay."""
    return _IN_BLOCK.sub(_escape, text.replace("\r\n", "\n")).expandtabs(4)
