"""mergekit writes the route's layers: the merge itself is run on a tiny model, and its tensors compared one by one."""

import pytest
import torch
import yaml
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from routes import random_ranges, sayable
from safetensors.torch import load_file
from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM

import depthgraph as dg

OPTIONS = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True, num_threads=None)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a function from N to the folder of a tiny model of N layers, each of other weights."""
    folder = tmp_path_factory.mktemp("models")

    def saved(depth):
        path = folder / str(depth)
        if not path.exists():
            torch.manual_seed(0)
            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1}
            model = LlamaForCausalLM(LlamaConfig(vocab_size=16, num_hidden_layers=depth, **sizes))
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter)
            model.save_pretrained(path)
        return path

    return saved


def _tensors(folder):
    """Return the tensors of each layer by their names in it."""
    layers: dict[int, dict[str, torch.Tensor]] = {}
    for file in folder.glob("*.safetensors"):
        for name, tensor in load_file(file).items():
            if name.startswith("model.layers."):
                _, _, layer, rest = name.split(".", 3)
                layers.setdefault(int(layer), {})[rest] = tensor
    return [layers[number] for number in sorted(layers)]


def _merged(text, source, out):
    """Run the merge of a config; return the layer of the source, from 1, that each layer of the result is."""
    run_merge(MergeConfiguration.model_validate(yaml.safe_load(text)), str(out), OPTIONS)
    originals = _tensors(source)
    order = []
    for layer in _tensors(out):
        same = [
            number
            for number, original in enumerate(originals, 1)
            if layer.keys() == original.keys() and all(torch.equal(layer[name], original[name]) for name in layer)
        ]
        assert len(same) == 1
        order += same
    assert AutoConfig.from_pretrained(out).num_hidden_layers == len(order)
    return tuple(order)


@pytest.mark.parametrize("route", sayable("mergekit", model="x"), ids=str)
def test_slices_write_the_route(route, models, tmp_path):
    source = models(route.parameter_depth)
    text = dg.formats.write_text("mergekit", route, model=str(source), dtype="float32")
    assert _merged(text, source, tmp_path / "out") == route.path


@pytest.mark.parametrize(("depth", "ranges"), [random_ranges() for _ in range(6)], ids=str)
def test_slices_are_read_as_mergekit_reads_them(depth, ranges, models, tmp_path):
    source = models(depth)
    slices = [{"sources": [{"model": str(source), "layer_range": pair}]} for pair in ranges]
    config = {"slices": slices, "merge_method": "passthrough", "dtype": "float32"}
    route = dg.formats.read("mergekit", config, N=depth)
    assert _merged(yaml.safe_dump(config), source, tmp_path / "out") == route.path
