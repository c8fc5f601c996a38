"""Which places of one sequence stand for which of another: as many equal pairs as possible, in as few stretches."""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

Symbols = Sequence[Hashable]

#: The largest table: what is left of one sequence times what is left of the other, without equal ends.
MOST_CELLS = 1_000_000

#: Where the last step of an alignment stands: on a pair, on a place of the first sequence, or of the second.
PAIR, FIRST, SECOND = 0, 1, 2


def align(one: Symbols, other: Symbols) -> list[tuple[int, int]]:
    """Return the pairs of places with equal symbols, ascending in both.

    Equal beginnings and ends are paired at once. Between them a table holds the best alignment of every two beginnings
    (Gotoh, J. Mol. Biol. 162, 1982): the most pairs, and of those the fewest stretches without. Where the table would
    be too large, `difflib` takes the longest common stretches first, which may find fewer pairs.

    Examples:
        >>> align((1, 2, 3), (1, 2, 3, 2, 3))
        [(0, 0), (1, 1), (2, 2)]
        >>> align((1, 2, 4), (1, 3, 4))
        [(0, 0), (2, 2)]
    """
    shorter = min(len(one), len(other))
    begin = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    room = shorter - begin
    end = next((at for at in range(room) if one[-1 - at] != other[-1 - at]), room)
    first, second = one[begin : len(one) - end], other[begin : len(other) - end]
    middle = _best(first, second) if len(first) * len(second) <= MOST_CELLS else _quick(first, second)
    pairs = [(at, at) for at in range(begin)] + [(begin + a, begin + b) for a, b in middle]
    return pairs + [(len(one) - left, len(other) - left) for left in range(end, 0, -1)]


def _quick(one: Symbols, other: Symbols) -> list[tuple[int, int]]:
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [(block.a + at, block.b + at) for block in blocks for at in range(block.size)]


def _best(one: Symbols, other: Symbols) -> list[tuple[int, int]]:
    """Fill the table by rows, keep from where each best alignment came, and walk back."""
    if not one or not other:
        return []
    pair = 2 * (len(one) + len(other)) + 1  # one pair more is worth more than all stretches
    never = -pair * (len(one) + 1)
    width = len(other) + 1
    # scores of the row above, by where they stand
    above = [[0] + [never] * (width - 1), [never] * width, [never] + [-1] * (width - 1)]
    came = [[bytes(width)] * 2 + [bytes([0, 0] + [SECOND] * (width - 2))]]
    for symbol in one:
        row: list[list[int]] = [[never], [max(above[PAIR][0] - 1, above[FIRST][0])], [never]]
        back = [bytearray(width) for _ in range(3)]
        back[FIRST][0] = FIRST if above[FIRST][0] > above[PAIR][0] - 1 else PAIR
        for at in range(1, width):
            _fill_cell(row, back, above, at, pair if symbol == other[at - 1] else never)
        above = row
        came.append([bytes(each) for each in back])
    return _walk_back(one, other, came, max((PAIR, FIRST, SECOND), key=lambda state: above[state][-1]))


def _fill_cell(row: list[list[int]], back: list[bytearray], above: list[list[int]], at: int, gain: int) -> None:
    scores = (
        [above[state][at - 1] + gain for state in range(3)],
        [above[PAIR][at] - 1, above[FIRST][at], above[SECOND][at] - 1],
        [row[PAIR][at - 1] - 1, row[FIRST][at - 1] - 1, row[SECOND][at - 1]],
    )
    for state, choices in enumerate(scores):
        best = max(choices)
        row[state].append(best)
        back[state][at] = choices.index(best)


def _walk_back(one: Symbols, other: Symbols, came: list[list[bytes]], state: int) -> list[tuple[int, int]]:
    pairs = []
    a, b = len(one), len(other)
    while a and b:
        before = came[a][state][b]
        if state == PAIR:
            pairs.append((a - 1, b - 1))
        a, b = a - (state != SECOND), b - (state != FIRST)
        state = before
    return pairs[::-1]
