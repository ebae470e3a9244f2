"""The feed-forwards of a known family, from its configuration."""

from dataclasses import replace

from dayzero.domain.architecture import FeedForward
from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.structure.assumed import Assumed, needed
from dayzero.stages.structure.families import Family
from dayzero.stages.structure.kinds import DENSE, EXPERTS, feed_forward_kinds, first_sharing_layer


def feed_forwards_of(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[FeedForward | None]:
    """Each layer's feed-forward; None in blocks that have none."""
    kinds = feed_forward_kinds(config, family, count, assumed)
    made: dict[str, FeedForward | None] = {}
    for kind in dict.fromkeys(kinds):
        made[kind] = _one(kind, config, family, assumed)
    plain = [made[kind] for kind in kinds]
    hashed = _by_hash(config, count)
    if any(hashed):
        by_hash = _routed(config, family, assumed, hash_routed=True)
        plain = [by_hash if flag and kind == EXPERTS else made[kind] for flag, kind in zip(hashed, kinds, strict=True)]
    return _widened(config, plain)


def _by_hash(config: ModelConfig, count: int) -> list[bool]:
    """Which layers take experts by the token: the first ones, or those listed as such."""
    if config.feed_forward_types is not None:
        return [name == "hash_moe" for name in config.feed_forward_types]
    return [index < (config.compressed.hash_layers or 0) for index in range(count)]


def _widened(config: ModelConfig, made: list[FeedForward | None]) -> list[FeedForward | None]:
    """Layers that read another layer's cache are twice as wide where the configuration says so."""
    if not config.wide_shared_layers:
        return made
    first = first_sharing_layer(config, len(made))
    return [_doubled(one) if one and not one.routed_experts and at >= first else one for at, one in enumerate(made)]


def _doubled(feed_forward: FeedForward) -> FeedForward:
    return replace(feed_forward, intermediate_size=2 * (feed_forward.intermediate_size or 0))


def _one(kind: str, config: ModelConfig, family: Family, assumed: Assumed) -> FeedForward | None:
    if kind == DENSE:
        return _dense(config, family, assumed)
    return _routed(config, family, assumed, hash_routed=False) if kind == EXPERTS else None


def _dense(config: ModelConfig, family: Family, assumed: Assumed) -> FeedForward:
    stated = config.dense_intermediate_size if config.dense_intermediate_size is not None else config.intermediate_size
    if stated is None and family.widening is not None and config.hidden_size is not None:
        why = f"absent: {family.widening} times the hidden size"
        stated = assumed.take("intermediate_size", None, family.widening * config.hidden_size, why)
    size = needed(config, family, "intermediate_size", stated)
    activation = assumed.take("hidden_act", config.activation, family.activation, f"absent: {family.name} default")
    bias = bool(config.mlp_bias) or family.norm == "norm.layer"
    return FeedForward("mlp.gated" if family.gated else "mlp.plain", size, activation, bias=bias, gated=family.gated)


def _routed(config: ModelConfig, family: Family, assumed: Assumed, *, hash_routed: bool) -> FeedForward:
    stated = config.moe_intermediate_size
    size = needed(config, family, "moe_intermediate_size", stated if stated is not None else config.intermediate_size)
    top_k = needed(config, family, "num_experts_per_tok", config.experts_per_token)
    experts = needed(config, family, "number of experts", config.routed_experts)
    zero = config.zero_experts or 0
    if top_k > experts + zero:
        raise BadInputError(f"config.json: {top_k} experts per token of {experts} experts.")
    shared, shared_size = _shared(config, family, size)
    scoring = assumed.take("scoring_func", config.scoring, family.scoring or "softmax", f"absent: {family.name} default")
    activation = assumed.take("hidden_act", config.activation, family.activation, f"absent: {family.name} default")
    beside = family.experts in ("beside", "first_half")
    return FeedForward(
        "moe.routed", size, activation, experts, shared, top_k, shared_size, scoring, config.groups,
        bias=family.experts == "fused", latent_size=config.latent_size, latent_norm=bool(config.latent_norm), zero_experts=zero,
        dense_size=needed(config, family, "intermediate_size", config.intermediate_size) if beside else None,
        correction_bias=family.correction_bias and not hash_routed, shared_gate=family.shared_gate, hash_routed=hash_routed,
        gated=family.gated,
    )  # fmt: skip


def _shared(config: ModelConfig, family: Family, size: int) -> tuple[int, int | None]:
    """How many shared experts there are, and their width together."""
    if family.shared_gate:
        return 1, needed(config, family, "shared_expert_intermediate_size", config.shared_intermediate_size)
    if family.experts == "interleaved":
        return 1, size
    shared = config.shared_experts
    if shared is None:
        shared = 1 if config.shared_intermediate_size else 0
    if shared and config.shared_intermediate_size:
        return shared, shared * config.shared_intermediate_size
    return shared, shared * size or None
