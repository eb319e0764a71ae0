"""No mixing at all."""

from __future__ import annotations

from model.mixer import MIXER, Mixer


@MIXER.register("none")
class NoMixer(Mixer):
    """Nothing: the block leaves this sublayer out, and no token learns of another.

    A decoder with a source still reads it by cross-attention.
    """
