"""What a configuration says of its towers: vision and audio encoders, and what joins them to the language model."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.canonical import Json
from dayzero.stages.configuration.fields import Fields

TOWERS = ("vision_config", "audio_config", "visual_config", "vision_tower_config", "speech_config", "video_config")


@dataclass(frozen=True, slots=True)
class TowerFields:
    """A tower under one name each; None where the configuration does not say. `outputs` is the language model's width."""

    name: str
    model_type: str | None
    hidden_size: int | None
    layers: int | None
    intermediate_size: int | None
    heads: int | None
    head_dim: int | None
    kv_heads: int | None
    patch: int | None
    temporal_patch: int | None
    channels: int | None
    merge: int | None
    temporal_merge: int | None
    positions: int | None
    position_grid: tuple[int, ...]
    outputs: int | None
    deep_layers: tuple[int, ...]
    projector: str | None
    projector_size: int | None
    clipped: bool


def towers_of(top: Mapping[str, Json]) -> tuple[TowerFields, ...]:
    """Every tower that the configuration has."""
    found = []
    for name in TOWERS:
        value = top.get(name)
        if isinstance(value, dict):
            found.append(_tower(name, Fields(value, {}), Fields(value, top)))
    return tuple(found)


def _tower(name: str, fields: Fields, wide: Fields) -> TowerFields:
    """A tower; its sizes are its own, its type and its projector may stand in the wrapper."""
    merging = fields.inside("img_token_compression_config")
    merge = fields.count("spatial_merge_size") or fields.count("merge_kernel_size")
    return TowerFields(
        name=name,
        model_type=wide.text("model_type"),
        hidden_size=fields.count("vt_hidden_size", "hidden_size", "embed_dim"),
        layers=fields.count("vt_num_hidden_layers", "depth", "num_hidden_layers", most=10_000),
        intermediate_size=fields.count("vt_intermediate_size", "intermediate_size"),
        heads=fields.count("vt_num_attention_heads", "num_heads", "num_attention_heads", most=1_000_000),
        head_dim=fields.count("head_dim"),
        kv_heads=fields.count("num_key_value_heads", most=1_000_000),
        patch=fields.count("patch_size"),
        temporal_patch=fields.count("temporal_patch_size") or (merging.count("temporal_patch_size") if merging else None),
        channels=fields.count("in_channels", "num_channels"),
        merge=merge or (merging.count("spatial_merge_size") if merging else None),
        temporal_merge=fields.count("init_pos_emb_time"),
        positions=fields.count("num_position_embeddings", "position_embedding_size"),
        position_grid=tuple(
            size for side in ("init_pos_emb_height", "init_pos_emb_width") if (size := fields.count(side)) is not None
        ),
        outputs=fields.count("out_hidden_size", "text_hidden_size", "projection_dim"),
        deep_layers=fields.counts("deepstack_visual_indexes") or (),
        projector=wide.text("mm_projector_type"),
        projector_size=wide.count("projector_hidden_size"),
        clipped=fields.flag("use_clipped_linears") or False,
    )
