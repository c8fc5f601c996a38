"""Loading models with a route by Hugging Face's auto classes."""

from typing import Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from depthgraph.errors import ConfigError, shown
from depthgraph.hf.classes import routed_class
from depthgraph.hf.config_class import MODEL_TYPE
from depthgraph.hf.settings import routed_config_class

#: The auto classes that load a model with a route.
AUTO_CLASSES: tuple[Any, ...] = (AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification)


def registered(base: Any) -> Any:
    """Return the routed class of a config class, which the auto classes know from then on."""
    routed = routed_config_class(base)
    for auto in AUTO_CLASSES:
        if base in auto._model_mapping and routed not in auto._model_mapping._extra_content:
            model = auto._model_mapping[base]
            # not by auto.register, which wants a class for each config: some models share theirs with Llama
            auto._model_mapping.register(routed, routed_class(model, None, True), exist_ok=True)
    return routed


class RoutedConfig(PreTrainedConfig):
    """How `config.json` is read where it says `depthgraph_routed`: as the routed config of `base_model_type`."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **named: Any) -> Any:
        """Return the routed config of the model that the route is over.

        Raises:
            ConfigError: `invalid-config` if the file does not say which model it is.
        """
        base = config_dict.get("base_model_type")
        if base not in CONFIG_MAPPING:
            message = f"`base_model_type` names the model under the route; found {shown(base)}"
            raise ConfigError(
                "invalid-config", message, help="this transformers has no such model, or the file is damaged"
            )
        return registered(CONFIG_MAPPING[base]).from_dict(config_dict, **named)


AutoConfig.register(MODEL_TYPE, RoutedConfig, exist_ok=True)
