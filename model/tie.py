"""Weights that are one, and stay so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Tied(nn.Module):
    """A model that knows which of its weights are one, whatever moves or loads it.

    The library gives each name a weight of its own where a model comes from the meta device, by
    `to_empty` or by a load that assigns: logits would be right, and training would be wrong.
    """

    ties: dict[str, str]  # a name, and the first name of the same weight

    def note_ties(self) -> None:
        """Once all parts are in place."""
        first: dict[Tensor, str] = {}
        self.ties = {}
        for name, weight in self.named_parameters(remove_duplicate=False):
            if first.setdefault(weight, name) != name:
                self.ties[name] = first[weight]

    def load_state_dict(self, *given: Any, **how: Any) -> Any:
        answer = super().load_state_dict(*given, **how)
        self._tie()
        return answer

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self._tie()
        return self

    def _tie(self) -> None:
        for name, other in self.ties.items():
            place, _, attribute = name.rpartition(".")
            setattr(self.get_submodule(place), attribute, self.get_parameter(other))
