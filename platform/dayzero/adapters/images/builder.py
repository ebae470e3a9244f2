"""Images built over the Docker SDK; the layers of a build may be re-used, the digest says what came out."""

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dayzero.errors import BadInputError, DependencyError, MeasurementError, UnavailableError

if TYPE_CHECKING:
    from docker import DockerClient

PING_TIMEOUT_S = 5
BUILD_SILENCE_S = 1800
"""How long a build step may say nothing (installing torch takes minutes) before the engine counts as gone."""

_NAME = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
)


def docker_sdk() -> ModuleType:
    """The Docker SDK. A folder named docker on the import path imports as an empty namespace: that is no SDK."""
    try:
        import docker
    except ImportError as error:
        raise _missing("is not installed") from error
    if getattr(docker, "__file__", None) is None or not hasattr(docker, "from_env"):
        raise _missing(f"is not installed (a folder named docker at {list(getattr(docker, '__path__', []))} stands in for it)")
    return docker


def _missing(why: str) -> DependencyError:
    return DependencyError(f"the Docker SDK {why}, so no image can be built.", remedy="Install it: pip install docker")


class DockerImageBuilder:
    """Builds with the engine that DOCKER_HOST names, or the local one. `base` replaces the Dockerfile's argument BASE."""

    def __init__(self, base: str | None = None) -> None:
        self._base = base

    def build(self, context: Path, tag: str) -> str:
        """The digest (sha256:…) of the image built from the context's Dockerfile under NAME:TAG.

        UnavailableError: no engine answers. BadInputError: no Dockerfile, or no valid tag. MeasurementError: the build failed,
        with what it said last.
        """
        if not (context / "Dockerfile").is_file():
            raise BadInputError(f"{context} has no Dockerfile, so there is nothing to build.")
        if len(tag) > 255 or not _NAME.fullmatch(tag):
            raise BadInputError(f"{tag[:100]!r} is no image name.", remedy="Write it as name:tag, in lower case.")
        docker = docker_sdk()
        client = _engine(docker)
        try:
            return self._built(docker, client, context, tag)
        finally:
            client.close()

    def version(self) -> str:
        """The engine that answers, by name and version; UnavailableError when none does."""
        client = _engine(docker_sdk())
        try:
            return f"Docker {client.version()['Version']}"
        finally:
            client.close()

    def _built(self, docker: Any, client: "DockerClient", context: Path, tag: str) -> str:
        from requests.exceptions import RequestException

        arguments = {"BASE": self._base} if self._base else {}
        labels = {"org.opencontainers.image.title": tag.rpartition(":")[0], "dayzero.tag": tag}
        try:
            image, _ = client.images.build(
                path=str(context), tag=tag, labels=labels, buildargs=arguments, rm=True, forcerm=True, pull=False
            )
        except docker.errors.BuildError as error:
            raise MeasurementError(f"building {tag} failed: {_last_words(error)}") from error
        except docker.errors.APIError as error:
            raise MeasurementError(f"the engine refused to build {tag}: {error.explanation or error}") from error
        except (docker.errors.DockerException, RequestException) as error:
            raise UnavailableError(f"the Docker engine went away while it built {tag}: {error}") from error
        return str(image.id)


def _engine(docker: Any) -> "DockerClient":
    from requests.exceptions import RequestException

    try:
        client: DockerClient = docker.from_env(timeout=PING_TIMEOUT_S)
        client.ping()
    except (docker.errors.DockerException, RequestException) as error:
        raise UnavailableError(
            "no Docker engine answers, so no image is built.", remedy="Start one, or set DOCKER_HOST to its address."
        ) from error
    client.api.timeout = BUILD_SILENCE_S
    return client


def _last_words(error: Any) -> str:
    """The end of what a failed build printed: the engine's reason, after the last line of output."""
    printed = [str(line["stream"]).strip() for line in error.build_log if isinstance(line, dict) and line.get("stream")]
    words = [line for line in printed if line][-1:]
    return "; ".join([*words, str(error.msg)])[:500]
