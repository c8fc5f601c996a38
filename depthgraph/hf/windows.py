"""A text as windows of tokens: the same ones for every route.

The convention: the text's tokens are t_0, t_1, …; window k of T tokens is given t_{kT} … t_{kT+T-1} and predicts
t_{kT+1} … t_{kT+T}. So every token but the first is predicted once, windows do not overlap, and nothing is padded; what
is left at the end is no window. Where a tokenizer starts texts with a token of its own (Gemma's `<bos>`), each window
starts with it too; it is not predicted.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from depthgraph.errors import ConfigError

#: Characters that are read for a token at first; there are about 4 in one of English.
CHARACTERS = 16


@dataclass(frozen=True)
class Windows:
    """Windows of a text.

    Attributes:
        inputs: [W, P + T] tokens: P that start every window, then T of the text.
        targets: [W, T], what the last T are to be followed by.
        sizes: of each window the bytes that its targets stand for in the text; None if the tokenizer cannot say.
        whole: whether the text has no further window.
    """

    inputs: Tensor
    targets: Tensor
    sizes: tuple[int, ...] | None
    whole: bool

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def length(self) -> int:
        """T."""
        return self.targets.shape[1]

    @property
    def tokens(self) -> int:
        """How many are predicted."""
        return self.targets.numel()


def read_text(path: Path) -> str:
    """Read a text.

    Raises:
        ConfigError: `missing-file`, also for a file that is no UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("missing-file", f"{str(path)!r} is not text in UTF-8", help="save it as UTF-8") from None
    except OSError as error:
        message = f"cannot read {str(path)!r}: {error.strerror or error}"
        raise ConfigError("missing-file", message, help="give a text file") from None


def windows_of(tokenizer: Any, text: str, length: int, most: int, title: str = "the text") -> Windows:
    """Cut a text into windows.

    Args:
        tokenizer: a Hugging Face one.
        text: from its beginning.
        length: T.
        most: how many windows at most.
        title: of the text, for the error.

    Raises:
        ConfigError: `wrong-usage`, for a text without a whole window.
    """
    needed = length * most + 1
    ids, ends = _tokens(tokenizer, text[: CHARACTERS * needed])
    if len(ids) < needed and len(text) > CHARACTERS * needed:
        ids, ends = _tokens(tokenizer, text)
    count = min(most, (len(ids) - 1) // length)
    if count < 1:
        message = f"{title} has {len(ids)} tokens, and a window of {length} needs {length + 1}"
        raise ConfigError("wrong-usage", message, help="give a longer text, or shorter windows: --length")
    start = _start(tokenizer)
    body = torch.tensor(ids[: count * length + 1])
    inputs = torch.cat([torch.tensor(start, dtype=torch.long).expand(count, -1), body[:-1].view(count, length)], 1)
    sizes = None
    if ends is not None:
        cuts = [ends[k * length] for k in range(count + 1)]
        sizes = tuple(len(text[a:b].encode()) for a, b in itertools.pairwise(cuts))
    whole = (len(ids) - 1) // length <= count and len(text) <= CHARACTERS * needed
    return Windows(inputs, body[1:].view(count, length), sizes, whole)


def _tokens(tokenizer: Any, text: str) -> tuple[Sequence[int], Sequence[int] | None]:
    """Return the tokens of a text, and where in it each ends."""
    fast = bool(tokenizer.is_fast)
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
    return found["input_ids"], [end for _, end in found["offset_mapping"]] if fast else None


def _start(tokenizer: Any) -> list[int]:
    """Return the tokens that the tokenizer puts before every text."""
    plain, full = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
    at = next((k for k in range(len(full)) if full[k : k + len(plain)] == plain), 0)
    return list(full[:at])
