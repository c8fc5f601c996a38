"""Layers that several tests run: small, and of the usual kind."""

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.linear(hidden))


class Residual(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + torch.tanh(self.linear(hidden))


class ReturnsTuple(Residual):
    def forward(self, hidden):  # no annotation: it has to be seen at run time
        return super().forward(hidden), None


class AnnotatedTuple(Residual):
    def forward(self, hidden: Tensor) -> tuple[Tensor, int]:
        return super().forward(hidden), 3


def changed(model, seed=1):
    """Give the parameters that start at 0 or 1 values as if they had been trained."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("layers."):
                parameter.add_(0.3 * torch.randn(parameter.shape))
    return model
