"""Tiny models and texts that the tests make themselves: nothing comes from a hub."""

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

#: The layers of every model here.
N = 4
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
VOCABULARY = ["<pad>", "<eos>", *map(chr, range(32, 127))]


def llama(seed=0, **changed):
    """Return a Llama with weights that make every layer matter."""
    torch.manual_seed(seed)
    special = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    config = LlamaConfig(vocab_size=len(VOCABULARY), num_hidden_layers=N, **SIZES, **special, **changed)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.2)
    return model.eval()


def tokenizer():
    """Return a tokenizer with a token for every printable character of ASCII."""
    inner = Tokenizer(models.WordLevel({token: number for number, token in enumerate(VOCABULARY)}, unk_token=" "))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    made.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    return made


def unrolled(model, route):
    """Return a plain model of E layers with the weights of one under a route (a chain): what it has to equal."""
    config = LlamaConfig.from_dict({**model.config.to_dict(), "model_type": "llama"})
    config.num_hidden_layers = route.execution_depth
    config.layer_types = None
    plain = LlamaForCausalLM(config)
    state = {name: tensor for name, tensor in model.state_dict().items() if ".layers." not in name}
    for position, layer in enumerate(route.path):
        for name, tensor in model.model.layers[layer - 1].state_dict().items():
            state[f"model.layers.{position}.{name}"] = tensor
    plain.load_state_dict(state)
    return plain.eval()


def batches(count, rows=4, length=12, seed=0):
    """Return batches of tokens, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(2, len(VOCABULARY), (rows, length), generator=generator) for _ in range(count)]


def next_token_loss(logits, tokens):
    """Return the mean loss of the next token."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
