"""Text → tokens → windows of tokens, each step's a pure function of the seed and the step."""

import glob
import hashlib
import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from depthgraph.config import PYDOC, DataConfig, TrainConfig
from depthgraph.errors import ConfigError

#: Stands after every document, where the tokenizer has it.
END = "<|endoftext|>"
#: Every byte has a token of its own, and `END` has one.
SMALLEST_VOCABULARY = 257


@dataclass(frozen=True)
class Corpus:
    """A tokenised text, in two parts.

    Attributes:
        training: token ids, [tokens].
        validation: token ids of the held-out part, [tokens].
        tokenizer: what made them.
        fingerprint: SHA-256 of both parts: runs with the same one saw the same tokens.
    """

    training: Tensor
    validation: Tensor
    tokenizer: Tokenizer
    fingerprint: str


def load_corpus(config: TrainConfig, tokenizer: Tokenizer | None = None) -> Corpus:
    """Read the config's text and turn it into tokens.

    Args:
        config: what to read.
        tokenizer: of a run that goes on; by default the config's, or one trained on the training text.

    Raises:
        ConfigError: `missing-file`, or `invalid-config` for a text or a tokenizer that does not fit the settings.
    """
    training, validation = split(read_documents(config.data), config.data.validation)
    tokenizer = tokenizer or load_tokenizer(config, training)
    parts = [encode(tokenizer, part) for part in (training, validation)]
    for part, name in zip(parts, ("training", "held-out"), strict=True):
        if len(part) <= config.length:
            message = (
                f"the {name} text has {len(part):,} tokens, and one sequence needs length + 1 = {config.length + 1:,}"
            )
            raise ConfigError("invalid-config", message, help="give more text (`data`), or a smaller `length`")
    digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()
    return Corpus(parts[0], parts[1], tokenizer, digest)


def read_documents(data: DataConfig) -> list[str]:
    """Return the text's documents, in order; empty ones are left out.

    Raises:
        ConfigError: a file is not there or is not text.
    """
    documents: list[str] = []
    for text in data.text:
        documents += pydoc_documents() if text == PYDOC else map(_read, _files(text))
    return [document for document in documents if document.strip()]


def pydoc_documents() -> Iterator[str]:
    """Yield Python's language reference, a topic at a time (about 400 kB of prose in Python 3.11).

    Topics quote each other, a fifth of the text: a longer paragraph comes once only, so that what is held out has not
    been trained on.
    """
    from pydoc_data.topics import topics

    seen: set[str] = set()
    for _, topic in sorted(topics.items()):
        kept = []
        for paragraph in topic.split("\n\n"):
            if len(paragraph) <= 80 or paragraph not in seen:
                kept.append(paragraph)
                seen.add(paragraph)
        yield "\n\n".join(kept)


def _files(pattern: str) -> list[str]:
    found = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
    files = [path for path in found if Path(path).is_file()]
    if not files:
        raise ConfigError("missing-file", f"there is no file `{pattern}` to train on")
    return files


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("missing-file", f"cannot read {path} as UTF-8 text: {error}") from error


def split(documents: Sequence[str], held_out: float) -> tuple[list[str], list[str]]:
    """Cut the documents in two: the first part is for training, the last `held_out` of the characters are not.

    The document in which the cut falls is cut at the end of a line.
    """
    remaining = round(sum(map(len, documents)) * (1 - held_out))
    for index, document in enumerate(documents):
        if remaining < len(document):
            cut = document.rfind("\n", 0, remaining) + 1 or remaining
            before, after = document[:cut], document[cut:]
            training, validation = [*documents[:index], before], [after, *documents[index + 1 :]]
            return [part for part in training if part], [part for part in validation if part]
        remaining -= len(document)
    return list(documents), []


def load_tokenizer(config: TrainConfig, documents: Iterable[str]) -> Tokenizer:
    """Return the config's tokenizer, or a byte-level BPE trained on the documents.

    Raises:
        ConfigError: it cannot be read, or does not fit model.vocab_size.
    """
    size = config.model.vocab_size
    if config.tokenizer is None:
        return train_tokenizer(documents, size)
    try:
        tokenizer = Tokenizer.from_file(config.tokenizer)
    except Exception as error:  # the package raises bare Exceptions
        raise ConfigError("missing-file", f"{config.tokenizer} is no tokenizer: {error}") from error
    found = tokenizer.get_vocab_size()
    if found > size:
        message = f"the tokenizer has {found:,} tokens, and model.vocab_size is {size:,}"
        raise ConfigError("invalid-config", message, help=f"set model.vocab_size to {found}")
    return tokenizer


def train_tokenizer(documents: Iterable[str], size: int) -> Tokenizer:
    """Train a byte-level BPE (Radford et al. 2019, section 2.2); the same text gives the same tokenizer.

    Args:
        documents: the text.
        size: tokens of its vocabulary, at most: a short text has fewer pairs to merge.

    Raises:
        ConfigError: the size has no room for every byte.
    """
    if size < SMALLEST_VOCABULARY:
        message = f"model.vocab_size is {size}, and a byte-level tokenizer has at least {SMALLEST_VOCABULARY} tokens"
        raise ConfigError("invalid-config", message)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, documents: Sequence[str]) -> Tensor:
    """Return the token ids of the documents in a row, `END` after each, [tokens]."""
    end = tokenizer.token_to_id(END)
    ids = array("q")
    for encoding in tokenizer.encode_batch(list(documents), add_special_tokens=False):
        ids.extend(encoding.ids)
        if end is not None:
            ids.append(end)
    return torch.tensor(ids, dtype=torch.long)


def training_batch(tokens: Tensor, *, seed: int, step: int, batch: int, length: int) -> Tensor:
    """Return the windows of one step, [batch, length + 1]: inputs and, one further, targets.

    An epoch has every window once, in an order drawn for it; its windows begin at a place drawn for it, so that they
    are cut elsewhere in every epoch. All of it follows from the arguments: a run that goes on needs no state.

    Args:
        tokens: [tokens], more than length.
        seed: of the order.
        step: from 0.
        batch: windows in a step.
        length: tokens in a window.
    """
    windows = (len(tokens) - 1) // length
    rows = []
    for index in range(step * batch, (step + 1) * batch):
        epoch, place = divmod(index, windows)
        starts = window_starts(len(tokens), length, seed, epoch)
        rows.append(tokens[starts[place] : starts[place] + length + 1])
    return torch.stack(rows)


@lru_cache(maxsize=4)
def window_starts(tokens: int, length: int, seed: int, epoch: int) -> tuple[int, ...]:
    """Return where the windows of an epoch start, in its order."""
    drawn = random.Random(f"{seed}/{epoch}")
    windows, rest = divmod(tokens - 1, length)
    offset = drawn.randint(0, rest)
    starts = [offset + length * window for window in range(windows)]
    drawn.shuffle(starts)
    return tuple(starts)


def validation_batches(tokens: Tensor, *, batch: int, length: int, limit: int | None = None) -> Iterator[Tensor]:
    """Yield the held-out windows in order, each [up to batch, length + 1]; a last piece below a window is left out.

    Args:
        tokens: [tokens], more than length.
        batch: windows at once.
        length: tokens in a window.
        limit: how many tokens to predict, at most; one window at least.
    """
    windows = (min(len(tokens) - 1, max(limit or len(tokens), length))) // length
    for first in range(0, windows, batch):
        starts = range(first * length, min(first + batch, windows) * length, length)
        yield torch.stack([tokens[start : start + length + 1] for start in starts])
