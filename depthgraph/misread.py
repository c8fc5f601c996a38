"""What is wrong with a text that is not a spec: lark's errors and odd characters, in our words."""

import re
import unicodedata
from typing import TYPE_CHECKING

from depthgraph.errors import SpecError
from depthgraph.source import Source, Span
from depthgraph.syntax import TOO_DEEP_HELP
from depthgraph.words import DATA_FLOW, JOIN_WORDS, LONGEST_NAME, REGISTER_WORDS, WEIGHTED_WORDS

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedInput, UnexpectedToken
    from lark.lexer import Token

NESTING = 64


#: Characters that word processors and papers put where the language has ASCII.
SPELLINGS = {
    "×": "x", "✕": "x", "∗": "*", "·": "*", "÷": "//", "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-",
    "…": "...", "‥": "..", "⇒": "->", "⟶": "->", "⟹": "->", "↦": "->", "∣": "|", "、": ",",
}  # fmt: skip

NAMES = {
    "INT": "a number", "LAYER": "a layer", "NAME": "a name", "CALL": "a scheme", "FILL": "`...`", "DOTS": "`..`",
    "ARROW": "`->`", "REPEAT": "`x`", "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`",
    "EQUALS": "`=`", "BAR": "`|`", "WHERE": "`where`", "FOR": "`for`", "IN": "`in`", "$END": "the end of the spec",
}  # fmt: skip

_DATA_FLOW = {word.upper() for word in DATA_FLOW}
_ELEMENT = {"FILL", "BLOCK", "ILR", "DROP", "REV", "CALL", "ARROW"} | _DATA_FLOW
_NUMBER = {"INT", "LAYER", "NAME", "LPAR"}
_OPERATORS = {"SIGN", "TIMES"}
_KEYWORDS = {"REV", "BLOCK", "ILR", "DROP", "WHERE", "FOR", "IN", "REPEAT"} | _DATA_FLOW


def check_text(source: Source, characters: int) -> None:
    """Refuse a text that is empty, too long, too deep or not ASCII, before it is parsed.

    Raises:
        SpecError: with the place of the first fault.
    """
    text = source.text
    if len(text) > characters:
        message = f"a spec of {len(text):,} characters is over the limit of {characters:,}"
        raise SpecError("spec-too-long", message, source, Span(0, 1), help="write repeats as `(…)x8`")
    if not text.strip():
        message = "there is no spec here"
        raise SpecError("empty-spec", message, source, Span(0, len(text)), help="`...` runs every layer once")
    for found in re.finditer(r"[^\t\n\r -~→]", text):
        raise _bad_character(found.group(), source, Span(*found.span()))
    glued = re.search(r"\w(\.\.\.)\w", text, re.ASCII)
    if glued:
        message = "`...` between two numbers could be a fill, or a range with a dot too many"
        raise SpecError(
            "syntax", message, source, Span(*glued.span(1)), help="write ` ... ` for a fill, `..` for a range"
        )
    _check_nesting(source)


def _check_nesting(source: Source) -> None:
    depth = 0
    for found in re.finditer(r"[()\[\]]", source.text):
        depth += 1 if found.group() in "([" else -1
        if depth > NESTING:
            message = f"this parenthesis is nested more than {NESTING} deep"
            raise SpecError("too-deep", message, source, Span(*found.span()), help=TOO_DEEP_HELP)


def _bad_character(character: str, source: Source, span: Span) -> SpecError:
    if "\ud800" <= character <= "\udfff" or not character.isprintable():
        what = f"the character U+{ord(character):04X}"
    else:
        what = f"`{character}` ({unicodedata.name(character, f'U+{ord(character):04X}')})"
    return SpecError("bad-character", f"{what} is not part of the language", source, span, help=_spelling(character))


def _spelling(character: str) -> str:
    plain = SPELLINGS.get(character) or unicodedata.normalize("NFKC", character)
    digit = unicodedata.digit(character, None)
    if digit is not None:
        plain = str(digit)
    if character.isspace() or plain.isspace():
        return "write a plain blank"
    if plain.isascii() and plain.isprintable():
        return f"write `{plain}`"
    return "specs are plain ASCII, and `→`"


def explain(error: "UnexpectedInput", source: Source) -> SpecError:
    """Return our error for one of lark's."""
    from lark.exceptions import UnexpectedToken

    if isinstance(error, UnexpectedToken):
        return _unexpected(error, source)
    position = error.pos_in_stream
    assert position is not None
    return _unread(source, position)


def _unread(source: Source, position: int) -> SpecError:
    """Explain text that begins no token."""
    word = re.compile(r"\w+").match(source.text, position)
    if word is None:
        span, found = Span(position, position + 1), source.text[position]
        return SpecError("bad-character", f"`{found}` is not part of the language", source, span, help=_hint(found))
    text, span = word.group(), Span(*word.span())
    if text in DATA_FLOW:
        message = f"`{text}` takes no arguments"
        return SpecError(
            "wrong-arguments", message, source, span, help=f"write `{text}` alone; a blank stands before a group"
        )
    if len(text) > LONGEST_NAME:
        message = f"`{text[:20]}…` runs digits and letters together"
        return SpecError("bad-number", message, source, span, help="put blanks between numbers and names")
    message = f"`{text}` runs digits and letters together"
    count = re.fullmatch(r"(\w*?[0-9]+|)[xX](\w+)", text)
    apart = re.sub(r"(?<=[0-9])(?=[A-Za-z_])", " ", text)
    help = f"write `{count[1]} x {count[2]}`" if count else f"write `{apart}`"
    return SpecError("bad-number", message, source, span, help=help.replace("` ", "`"))


def _hint(character: str) -> str:
    hints = {
        "#": "a spec has no comments; put them into the file around it",
        "/": "integer division is `//`",
        ";": "elements are separated by blanks, definitions of `where` by commas",
        ".": "a range is written `2..4`, a fill `...`",
        '"': "quotes belong to the file around a spec, not to the spec",
        "'": "quotes belong to the file around a spec, not to the spec",
        "{": "parts are grouped by `(` and `)`",
        "}": "parts are grouped by `(` and `)`",
        ">": "an arrow is written `->`",
    }
    return hints.get(character, "")


def _unexpected(error: "UnexpectedToken", source: Source) -> SpecError:
    token, expected = error.token, set(error.accepts or error.expected)
    at_end = token.type == "$END"
    span = Span(len(source.text.rstrip()), len(source.text.rstrip())) if at_end else token_span(token)
    before = _token_before(source, span.start)
    if token.type in _KEYWORDS and before in {",", "where", "for", "("} and "FILL" not in expected:
        message = f"`{token}` is a word of the language and cannot be a name"
        return SpecError("reserved-name", message, source, span, help="choose another name")
    found = "the spec ends here" if at_end else f"found `{_short(str(token))}`"
    after = f" after `{before}`" if before else ""
    message = f"expected {_wanted(expected, before)}{after}, {found}"
    return SpecError("syntax", message, source, span, help=_syntax_help(token, expected, before, source))


def token_span(token: "Token") -> Span:
    """Return where a token stands."""
    assert token.start_pos is not None
    assert token.end_pos is not None
    return Span(token.start_pos, token.end_pos)


def _token_before(source: Source, position: int) -> str:
    before = source.text[:position].rstrip()[-LONGEST_NAME:]
    found = re.search(r"(\w+|\.+|->|→|//|[^\s\w])\Z", before)
    if not found:
        return ""
    word = found.group(1)
    return "x" if re.fullmatch(r"[0-9]*x", word) else word


def _wanted(expected: set[str], before: str) -> str:
    """Say what the grammar allows at a place, in the reader's words."""
    if before == "x" and "INT" in expected:
        return "a repeat count"
    wanted = []
    if expected & _ELEMENT and "INT" in expected:
        wanted.append("a layer, a range, a group or a scheme")
        expected = expected - _ELEMENT - _NUMBER - {"SIGN", "TIMES", "DOTS", "REPEAT", "WHERE"}
    elif {"INT", "NAME"} <= expected:
        wanted.append("a number or a name")
        expected = expected - _NUMBER
    elif "WHERE" in expected:
        # the parser has already ended the sequence here; another element could have gone on with it
        wanted.append("a layer, a range, a group or a scheme")
    wanted += sorted(NAMES[name] for name in expected - _OPERATORS if name in NAMES)
    *most, last = wanted or ["something else"]
    return f"{', '.join(most)} or {last}" if most else last


def _syntax_help(token: "Token", expected: set[str], before: str, source: Source) -> str:
    opened = _unclosed(source, token.start_pos if token.type != "$END" else None)
    if token.type == "RPAR" and "RPAR" not in expected and opened is None:
        return "this parenthesis closes nothing"
    if token.type == "$END" and opened is not None:
        return f"the `{source.text[opened]}` in column {source.locate(Span(opened, opened + 1)).column} is not closed"
    if before in ("rev", "block", "drop", *REGISTER_WORDS, *JOIN_WORDS):
        return f"write `{before}({'… | …' if before in JOIN_WORDS else 'a' if before in REGISTER_WORDS else '…'})`"
    around = re.search(r"\w*\s*\Z", source.text[:opened])
    word = around.group().rstrip() if around and opened is not None else ""
    if word in JOIN_WORDS | REGISTER_WORDS:
        return _data_flow_help(token, word, before)
    if token.type == "LSQB":
        return "only `ilr[4,2,1,1]` takes square brackets"
    if token.type == "LPAR" and before == "ilr":
        return "`ilr` takes square brackets: `ilr[4,2,1,1]`"
    if token.type == "BAR":
        return "`|` stands between the branches of `mean(… | …)` and `sum(… | …)`"
    if token.type in {"SIGN", "TIMES"} and before == ")":
        return "a number in parentheses cannot begin an element: write `2*(N-1)` for `(N-1)*2`"
    if token.type == "COMMA":
        return "elements are separated by blanks"
    if token.type in _KEYWORDS and "NAME" in expected and "FILL" not in expected:
        return f"`{token}` is a word of the language, and no name"
    return ""


def _data_flow_help(token: "Token", word: str, before: str) -> str:
    """Say what stands in the parentheses of an operation with a register, or of a join."""
    if word in WEIGHTED_WORDS:
        return f"`{word}` takes one register, and a name where weights are shared: `{word}(a)`, `{word}(a,w)`"
    if word in REGISTER_WORDS:
        return f"`{word}` takes one register, by its name: `{word}(a)`"
    if token.type == "FOR" and before not in ("(", "|"):
        return f"a comprehension has parentheses of its own: `{word}((… for i in 1..3) | …)`"
    if before in ("(", "|"):
        return "a branch runs one layer at least"
    return f"a join has two branches or more, with `|` between them: `{word}(5 | 6)`"


def _unclosed(source: Source, end: int | None) -> int | None:
    """Return where the innermost parenthesis stands that is still open at `end`."""
    opened: list[int] = []
    for found in re.finditer(r"[()\[\]]", source.text[:end]):
        if found.group() in "([":
            opened.append(found.start())
        elif opened:
            opened.pop()
    return opened[-1] if opened else None


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:21] + "…"
