"""Rotary embeddings in one normal form, whatever names and nesting a publisher chose."""

from collections.abc import Mapping

from dayzero.domain.architecture import Rotary
from dayzero.domain.canonical import Json
from dayzero.stages.configuration.fields import Fields, shown

DEFAULT = "default"
_KNOWN = {
    "type", "rope_type", "rope_theta", "factor", "original_max_position_embeddings", "attention_factor", "attn_factor",
    "partial_rotary_factor",
}  # fmt: skip


def rotary_of(fields: Fields) -> Mapping[str, Rotary]:
    """Rotary embeddings by the kind of layer that uses them; "default" where there is one for all, {} where none is stated.

    `rope_parameters` (newer) goes before `rope_theta` with `rope_scaling`; a nested object for each kind of layer is kept as
    such. Keys beside the usual ones are kept as text, so that nobody drops them unseen.
    """
    newer, scaling = fields.mapping("rope_parameters"), fields.mapping("rope_scaling")
    theta, share = fields.number("rope_theta", "rotary_emb_base"), fields.number("partial_rotary_factor", "rotary_pct")
    if newer:
        nested = {kind: value for kind, value in newer.items() if isinstance(value, dict)}
        if nested:
            return {kind: _one(Fields(value, {}), value, theta, share) for kind, value in sorted(nested.items())}
        return {DEFAULT: _one(Fields(newer, {}), newer, theta, share)}
    if scaling:
        return {DEFAULT: _one(Fields(scaling, {}), scaling, theta, share)}
    if theta is None:
        return {}
    local = fields.number("rope_local_base_freq")
    found = {DEFAULT: Rotary("default", theta, rotated_share=share)}
    if local is not None:
        found["sliding_attention"] = Rotary("default", local, rotated_share=share)
    return found


def theta_of(rotary: Mapping[str, Rotary]) -> float | None:
    """The base of the layers that see everything."""
    for kind in (DEFAULT, "full_attention", *rotary):
        if kind in rotary:
            return rotary[kind].theta
    return None


def _one(fields: Fields, stated: Mapping[str, Json], theta: float | None, share: float | None) -> Rotary:
    own_theta, own_share = fields.number("rope_theta"), fields.number("partial_rotary_factor")
    return Rotary(
        kind=fields.text("rope_type", "type") or "default",
        theta=own_theta if own_theta is not None else theta,
        factor=fields.number("factor"),
        original_context_tokens=fields.count("original_max_position_embeddings"),
        attention_factor=fields.number("attention_factor", "attn_factor"),
        rotated_share=own_share if own_share is not None else share,
        extra={key: shown(value) for key, value in sorted(stated.items()) if key not in _KNOWN and value is not None},
    )
