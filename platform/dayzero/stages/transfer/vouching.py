"""Whether a signed statement is about the very shards that a node asks for; what can be stated of shards that are there."""

from dayzero.domain.release import Release
from dayzero.domain.shards import ShardManifest, WeightsState
from dayzero.domain.vouching import STATEMENT, ShardStatement, StatedFile
from dayzero.errors import BadInputError


def statement_of(manifest: ShardManifest, digests: tuple[str, ...]) -> ShardStatement:
    """The statement about written shards, `digests` being the sha256 of their files in order.

    BadInputError: not all sources passed here whole with their stated hash (who was vouched for does not vouch for others).
    """
    if manifest.state is not WeightsState.HASHED:
        raise BadInputError(
            f"the shards of {manifest.content_id[:12]} for {manifest.degrees} are {manifest.state.value}: only who hashed "
            "whole files can sign for them.",
            remedy="Fetch them without --ranks and with --integrity sha256, then sign.",
        )
    files = tuple(
        StatedFile(file.rank, file.path, file.size_bytes, sha256) for file, sha256 in zip(manifest.files, digests, strict=True)
    )
    return ShardStatement(manifest.content_id, manifest.degrees, manifest.redundant_experts, manifest.sources, files)


def refusal(statement: ShardStatement, release: Release, layout: ShardManifest) -> str | None:
    """Why a statement says nothing of the layout's files of the release; None when it speaks of all of them."""
    if statement.schema != STATEMENT:
        return f"it is a {statement.schema[:40]!r}, not a {STATEMENT}"
    if statement.content_id != release.content_id:
        return f"it is about the content {statement.content_id[:12]}, and the release is {release.content_id[:12]}"
    if (statement.degrees, statement.redundant_experts) != (layout.degrees, layout.redundant_experts):
        return (
            f"it is about {statement.degrees} with {statement.redundant_experts} redundant experts, and asked for is "
            f"{layout.degrees} with {layout.redundant_experts}"
        )
    return _other_sources(statement, release, layout) or _other_files(statement, layout)


def _other_sources(statement: ShardStatement, release: Release, layout: ShardManifest) -> str | None:
    """The release's own digests must be those of the files that passed: a content id is no more than a name for them."""
    stated = {file.path: file.sha256 or file.git_blob_id for file in release.files}
    passed = {source.path: source for source in statement.sources}
    for path in layout.source_files:
        source, digest = passed.get(path), stated.get(path)
        if source is None:
            return f"it does not say that {path} passed"
        if not source.verified or source.sha256 is None:
            return f"it says that {path} passed unchecked"
        if digest is None:
            return f"the hub states no digest of {path} to compare it with"
        if source.sha256 != digest:
            return f"it is of another release: {path} has the digest {digest[:12]} on the hub, and {source.sha256[:12]} there"
    return None


def _other_files(statement: ShardStatement, layout: ShardManifest) -> str | None:
    known = {(file.rank, file.path): file for file in statement.files}
    for file in layout.files:
        stated = known.get((file.rank, file.path))
        if stated is None:
            return f"it says nothing of {file.path}"
        if stated.size_bytes != file.size_bytes:
            return f"{file.path} has {stated.size_bytes} bytes there, and {file.size_bytes} in this layout"
    return None
