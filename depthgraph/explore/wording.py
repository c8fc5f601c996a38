"""Stretches of what routes run, as short texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from depthgraph.symbols import BAR, CLOSE, JOINS, Action, is_flow


@dataclass(frozen=True)
class Wording:
    """How symbols are written.

    Attributes:
        actions: what the symbols of data flow are.
    """

    actions: Mapping[int, Action]

    def word(self, symbol: int) -> str:
        """Return one symbol as the language writes it; a join's brackets stand alone."""
        if not is_flow(symbol):
            return str(symbol)
        if symbol in JOINS:
            return f"{JOINS[symbol]}("
        if symbol in (BAR, CLOSE):
            return "|" if symbol == BAR else ")"
        word, register, _ = self.actions[symbol]
        return f"{word}({register})" if register else word

    def text(self, symbols: Sequence[int]) -> str:
        """Return a stretch with ascending layers as ranges.

        Examples:
            >>> Wording({}).text((1, 2, 3, 2, 5, 5))
            '1..3 2 5 5'
        """
        words: list[str] = []
        at = 0
        while at < len(symbols):
            end = at + 1
            while end < len(symbols) and symbols[end] == symbols[end - 1] + 1 and not is_flow(symbols[end]):
                end += 1
            words.append(f"{symbols[at]}..{symbols[end - 1]}" if end - at > 1 else self.word(symbols[at]))
            at = end
        return " ".join(words).replace("( ", "(").replace(" )", ")")
