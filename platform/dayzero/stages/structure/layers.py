"""The layers of a known family, from its configuration."""

from dayzero.domain.architecture import Layer
from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.structure.assumed import Assumed, needed
from dayzero.stages.structure.families import Family
from dayzero.stages.structure.feed_forward import feed_forwards_of
from dayzero.stages.structure.mixers import mixers_of


def layers_of(config: ModelConfig, family: Family, assumed: Assumed) -> tuple[Layer, ...]:
    """Every layer of the language model; BadInputError when the configuration lacks what the family needs."""
    count = needed(config, family, "num_hidden_layers", config.layers) * (2 if family.experts == "first_half" else 1)
    mixers = mixers_of(config, family, count, assumed)
    feed_forwards = feed_forwards_of(config, family, count, assumed)
    if not len(mixers) == len(feed_forwards) == count:
        raise BadInputError(
            f"config.json: {count} layers, but its lists describe {len(mixers)} mixers and {len(feed_forwards)} feed-forwards."
        )
    return tuple(
        Layer(index, mixer, feed_forward, family.norm, parallel)
        for index, ((mixer, parallel), feed_forward) in enumerate(zip(mixers, feed_forwards, strict=True))
    )
