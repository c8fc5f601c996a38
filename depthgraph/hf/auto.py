"""Loading models with a route by Hugging Face's auto classes."""

from typing import Any

from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from depthgraph.errors import ConfigError, shown
from depthgraph.hf.classes import routed_class
from depthgraph.hf.config_class import MODEL_TYPE
from depthgraph.hf.settings import routed_config_class

#: All auto classes of models. They look up a config by the name of its class, so that one which were left out would
#: load the model without its route, and say nothing.
AUTO_CLASSES: tuple[Any, ...] = tuple(
    kind for name, kind in vars(modeling_auto).items() if name.startswith("Auto") and hasattr(kind, "_model_mapping")
)


def registered(base: Any) -> Any:
    """Return the routed class of a config class, which the auto classes know from then on."""
    routed = routed_config_class(base)
    for auto in AUTO_CLASSES:
        if base in auto._model_mapping and routed not in auto._model_mapping._extra_content:
            model = auto._model_mapping[base]
            # not by auto.register, which wants a class for each config: some models share theirs with Llama
            auto._model_mapping.register(routed, _with_route(model), exist_ok=True)
    return routed


def _with_route(model: Any) -> Any:
    """Return the routed class of a model class; of several, which an auto class may choose from, those of all."""
    if isinstance(model, list | tuple):
        return tuple(_with_route(each) for each in model)
    return routed_class(model, None, True)


class RoutedConfig(PreTrainedConfig):
    """How `config.json` is read where it says `depthgraph_routed`: as the routed config of `base_model_type`."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **named: Any) -> Any:
        """Return the routed config of the model that the route is over.

        Raises:
            ConfigError: `invalid-config` if the file does not say which model it is, or nobody says the route.
        """
        base = config_dict.get("base_model_type")
        if not isinstance(base, str) or base not in CONFIG_MAPPING:
            message = f"`base_model_type` names the model under the route; found {shown(base)}"
            raise ConfigError(
                "invalid-config", message, help="this transformers has no such model, or the file is damaged"
            )
        route = named.get("route", config_dict.get("route"))
        if not isinstance(route, str):
            message = f"`route` is the text of the route that the model has; found {shown(route)}"
            raise ConfigError("invalid-config", message, help="str(route); or the file is damaged")
        return registered(CONFIG_MAPPING[base]).from_dict(config_dict, **named)


AutoConfig.register(MODEL_TYPE, RoutedConfig, exist_ok=True)
