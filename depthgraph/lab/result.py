"""What a run gives."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depthgraph.route import Route


@dataclass(frozen=True)
class Result:
    """The end of a run.

    Attributes:
        route: that was trained, with drawn loop counts at those of the evaluation.
        parameters: of the model.
        steps: updates of the weights.
        tokens: trained on, each as often as it came.
        flops: of training, by the convention of `depthgraph.decoder_cost`; None if they cannot be counted.
        seconds: of training, without evaluations and checkpoints.
        training_loss: of the last step, nats a token.
        validation_loss: nats a token of the held-out text.
        checkpoint: the folder of the last one.
        log: the JSON-lines file.
    """

    route: Route
    parameters: int
    steps: int
    tokens: int
    flops: int | None
    seconds: float
    training_loss: float | None
    validation_loss: float
    checkpoint: Path
    log: Path

    @property
    def perplexity(self) -> float:
        """The exponential of validation_loss."""
        return math.exp(min(self.validation_loss, 700.0))

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "step": self.steps,
            "route": str(self.route),
            "parameter_depth": self.route.parameter_depth,
            "execution_depth": self.route.execution_depth,
            "multiplier": self.route.multiplier,
            "parameters": self.parameters,
            "tokens": self.tokens,
            "flops": self.flops,
            "seconds": self.seconds,
            "training_loss": self.training_loss,
            "validation_loss": self.validation_loss,
            "perplexity": self.perplexity,
            "checkpoint": str(self.checkpoint),
            "log": str(self.log),
        }

    def summary(self) -> str:
        """Return the result as lines to read."""
        route = self.route
        depth = f"N {route.parameter_depth}, E {route.execution_depth}, multiplier {route.multiplier:.2f}"
        flops = "not counted" if self.flops is None else f"{self.flops:.3g}"
        rows = {
            "route": f"{route}   ({depth})",
            "parameters": f"{self.parameters:,}",
            "trained on": f"{self.tokens:,} tokens in {self.steps:,} steps, {flops} FLOPs, {self.seconds:,.1f} s",
            "held-out text": f"perplexity {self.perplexity:,.2f}, loss {self.validation_loss:.4f} nats a token",
            "checkpoint": str(self.checkpoint),
            "log": str(self.log),
        }
        return "\n".join(f"{name:<14} {value}" for name, value in rows.items())
