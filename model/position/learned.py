"""One trained vector for each position, at the input."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from model.config import ConfigError
from model.initialise import Role, Spread
from model.position import POSITION
from model.position.input import FreeWidth


@POSITION.register("learned")
class Learned(FreeWidth):
    """A table of max_len vectors; there is no answer past its end (Gehring et al. 2017).

    How large a number is at the start (root mean square; d: d_model, w: width of the vectors, which
    is d where they are added), beside what it is joined to:

    | initial       | tokens    | tokens with embedding_scale | sinusoids | learned, std left out |
    |---------------|-----------|-----------------------------|-----------|-----------------------|
    | xavier        | 1/√d      | 1                           | 1/√2      | 1/√w                  |
    | normal        | its std   | its std · √d                | 1/√2      | its std               |
    | unit_variance | 1         | √d                          | 1/√2      | 1                     |

    So with xavier and scaled tokens a learned position starts √(d/2) times smaller than a sinusoid:
    compare the two at equal size with std=0.7071.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(FreeWidth.Config):
        std: float | None = None
        """Standard deviation of the first values. Left out: as the initial rule draws embeddings,
        which embedding_scale does not multiply here."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.std is not None and self.std <= 0:
                raise ConfigError([f"std={self.std}: must be positive"])

    def __init__(self, config: Config, d_model: int, max_len: int) -> None:
        super().__init__(config, d_model, config.choose(d_model))
        self.reach = max_len
        self.table = Table(max_len, config.choose(d_model), config.std)

    def vectors(self, positions_T: Tensor) -> Tensor:
        return self.table(positions_T)


class Table(nn.Embedding):
    """Drawn as the rule draws embeddings, or as wide as is said."""

    def __init__(self, size: int, width: int, std: float | None) -> None:
        super().__init__(size, width)
        self.roles: dict[str, Role] = {"weight": "embedding" if std is None else Spread(std)}
