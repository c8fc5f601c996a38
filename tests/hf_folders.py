"""Folders with tiny models, tokenizers and texts, as commands are given them."""

import random
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_models import tiny

#: Every byte is a token, so that any text has one, and 256 tokens are all.
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_tokenizer(**special: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the bytes; `bos_token="<s>"` starts every text with that."""
    vocabulary = {token: number for number, token in enumerate([*BYTES, *special.values()])}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if special:
        from tokenizers.processors import TemplateProcessing

        (token,) = special.values()
        made.post_processor = TemplateProcessing(single=f"{token} $A", special_tokens=[(token, vocabulary[token])])
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def save(folder: Path, name: str = "llama", *, model=None, seed: int = 0, **changes: object) -> Path:
    """Save a tiny model of `hf_models`, or the one that is given, with a tokenizer of bytes."""
    model = tiny(name, seed, vocab_size=256, **changes) if model is None else model
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def text(path: Path, length: int = 2_000, seed: int = 0) -> Path:
    """Write a text of words."""
    chosen = random.Random(seed)
    words = ("layer", "route", "loop", "été", "weights", "runs", "twice", "a", "the", "of")
    path.write_text(" ".join(chosen.choice(words) for _ in range(length // 4))[:length], encoding="utf-8")
    return path
