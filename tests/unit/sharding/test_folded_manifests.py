"""Manifests on disk: one row a tensor, whatever the ranks; each rank's part follows from it, as it was laid out."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, index_of_model, legal, spec_of
from dayzero.codec import dump, load
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.layout.laying import UncuttableError, lay_out
from dayzero.stages.layout.ranks import fold, unfold
from dayzero.stages.planning.index import predicted_index
from golden_models import spec_of as golden_spec


@st.composite
def laid_out(draw: st.DrawFn) -> ShardManifest | None:
    """A layout of any architecture for any degrees that it allows; None where a tensor cannot be cut."""
    name = draw(st.sampled_from(sorted(MODELS)))
    degrees, redundant = draw(st.sampled_from(legal(name)))
    try:
        return lay_out("c", spec_of(name), index_of_model(name), degrees, redundant)
    except UncuttableError:
        return None


@settings(max_examples=80, deadline=None)
@given(laid_out(), st.data())
def test_a_folded_manifest_unfolds_to_itself(manifest: ShardManifest | None, data: st.DataObject) -> None:
    if manifest is None:
        return
    document = dump(fold(manifest))
    read = load(ShardManifest, document)
    assert unfold(read) == manifest
    rank = data.draw(st.sampled_from(range(manifest.degrees.world)))
    assert unfold(read, [rank]).files == (manifest.files[rank],)
    assert [file.weight_bytes for file in read.files] == [file.weight_bytes for file in manifest.files]
    assert [file.tensor_count for file in read.files] == [len(file.tensors) for file in manifest.files]
    assert dump(fold(unfold(read))) == document


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(MODELS)), st.data())
def test_only_the_ranks_that_are_asked_for_are_laid_out(name: str, data: st.DataObject) -> None:
    degrees, redundant = data.draw(st.sampled_from(legal(name)))
    ranks = data.draw(st.sets(st.sampled_from(range(degrees.world)), min_size=1))
    try:
        whole = lay_out("c", spec_of(name), index_of_model(name), degrees, redundant)
    except UncuttableError as error:
        with pytest.raises(UncuttableError, match=r".") as same:
            lay_out("c", spec_of(name), index_of_model(name), degrees, redundant, ranks=ranks)
        assert same.value.reason == error.reason
        return
    some = lay_out("c", spec_of(name), index_of_model(name), degrees, redundant, ranks=ranks)
    assert some.files == tuple(whole.files[rank] for rank in sorted(ranks)) and some.rules == whole.rules


def test_the_order_of_the_headers_changes_nothing() -> None:
    index = index_of_model("mla")
    turned = CheckpointIndex(tuple(reversed(index.tensors)))
    degrees = Degrees(tp=2, ep=2)
    first, second = (dump(fold(lay_out("c", spec_of("mla"), one, degrees))) for one in (index, turned))
    assert first == second


def test_a_manifest_of_many_ranks_is_as_small_as_of_one() -> None:
    spec = golden_spec("deepseek-ai/DeepSeek-V3")
    index = predicted_index(spec)
    assert index is not None
    many = lay_out("c", spec, index, Degrees(tp=8, ep=256, dp=64), ranks=(0, 511))
    folded = dump(fold(many))
    assert len(folded) < 120 * len(index.tensors)
    held = [len(file.tensors) for file in many.files]
    assert max(held) < len(index.tensors) // 20
    assert unfold(load(ShardManifest, folded)) == many


def test_a_manifest_that_lies_is_refused() -> None:
    manifest = fold(lay_out("c", spec_of("dense"), index_of_model("dense"), Degrees(tp=3)))
    with pytest.raises(BadInputError, match="has no shard of rank 3"):
        unfold(manifest, [3])
    first = manifest.files[0]
    short = replace(manifest, files=(replace(first, size_bytes=first.size_bytes - 8), *manifest.files[1:]))
    with pytest.raises(BadInputError, match=rf"gives {first.path} {first.size_bytes - 8} bytes; its rules lead to"):
        unfold(short)
    rules = manifest.rules
    assert rules is not None
    name, cut, file, begin, expert = rules.tensors[0]
    for row in ((name, 99, file, begin, expert), (name, cut, -1, begin, expert)):
        with pytest.raises(BadInputError, match="rules of the manifest contradict themselves at tensor"):
            unfold(replace(manifest, rules=replace(rules, tensors=(row, *rules.tensors[1:]))))
    with pytest.raises(BadInputError, match="rules of the manifest contradict themselves at cut"):
        unfold(replace(manifest, rules=replace(rules, cuts=(replace(rules.cuts[0], dtype="F7"), *rules.cuts[1:]))))
    with pytest.raises(BadInputError, match="tp3 has no rank 3"):
        lay_out("c", spec_of("dense"), index_of_model("dense"), Degrees(tp=3), ranks=(3,))
