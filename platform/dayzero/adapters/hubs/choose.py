"""From what a user writes to a pinned release, and from a release to the hub that has it."""

import re
from pathlib import Path

from dayzero.adapters.hubs.directory import ConfigHub, DirectoryHub, config_release
from dayzero.domain.canonical import digest
from dayzero.domain.release import HubKind, ModelRef, Release
from dayzero.domain.watching import WatchSource
from dayzero.errors import BadInputError
from dayzero.names import safe_repo_id
from dayzero.ports.hub import Hub
from dayzero.settings import Settings

_REMEDY = "Write hf:org/name, hf:org/name@revision, a folder, or a config.json."


def parse_model_ref(text: str) -> ModelRef:
    """The model that a user names: hf:org/name[@rev], ms:org/name[@rev], dir:FOLDER, a folder, or a configuration file."""
    prefix, colon, rest = text.strip().partition(":")
    if colon and prefix in ("hf", "ms"):
        repo_id, at, revision = rest.partition("@")
        if at and not re.fullmatch(r"[\w][\w./-]{0,199}", revision):
            raise BadInputError(f"{text!r} names no usable revision after the @.", remedy=_REMEDY)
        return ModelRef(HubKind(prefix), safe_repo_id(repo_id), revision or None)
    place = Path(rest if colon and prefix in ("dir", "config") else text.strip()).expanduser()
    if not text.strip() or "\0" in text:
        raise BadInputError(f"{text!r} names no model.", remedy=_REMEDY)
    if place.is_dir() and prefix != "config":
        return ModelRef(HubKind.DIRECTORY, str(place.resolve()))
    if place.is_file() and prefix != "dir":
        if place.suffix != ".json":
            raise BadInputError(f"{place} is a file, and no config.json.", remedy=_REMEDY)
        return ModelRef(HubKind.CONFIG, str(place.resolve()))
    if colon and prefix == "dir":
        raise BadInputError(f"{place} is not a folder.", remedy=_REMEDY)
    raise BadInputError(f"{text!r} is neither a folder nor a file here, and has no hf: before it.", remedy=_REMEDY)


def hub_for(source: Release | ModelRef | WatchSource, settings: Settings) -> Hub:
    """The hub that has a release, a reference or a watched source. BadInputError for hubs that are not supported yet.

    The token of the settings goes to the endpoint of the settings alone; another endpoint is asked without one.
    """
    if isinstance(source, WatchSource):
        place, endpoint = source.location, source.location
    elif isinstance(source, ModelRef):
        place, endpoint = source.location, None
    else:
        place, endpoint = source.repo_id, source.endpoint
    if source.hub is HubKind.HUGGING_FACE:
        from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
        from dayzero.adapters.hubs.lines import LineLimits

        ours = settings.hf_endpoint.rstrip("/")
        asked = (endpoint or ours).rstrip("/")
        token = settings.hf_token.get_secret_value() if settings.hf_token and asked == ours else None
        limits = LineLimits(settings.hub_connections, settings.hub_bytes_per_s)
        return HuggingFaceHub(asked, token, timeout_s=settings.hub_timeout_s, retries=settings.hub_retries, limits=limits)
    if source.hub is HubKind.DIRECTORY:
        kept_in = settings.data_dir / "digests" / f"{digest(str(Path(place).resolve()))[:16]}.json"
        return DirectoryHub(Path(place), kept_in)
    if source.hub is HubKind.CONFIG:
        return ConfigHub(Path(place))
    raise BadInputError(f"{place} is on ModelScope, which is not supported yet.", remedy="Use the same model on hf:.")


def resolve(ref: ModelRef, settings: Settings) -> Release:
    """The release that a reference points at now, pinned."""
    if ref.hub is HubKind.CONFIG:
        return config_release(Path(ref.location))
    return hub_for(ref, settings).release(ref.location, ref.revision)
