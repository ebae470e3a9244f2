"""Building images: with a real engine where one answers, and an honest error where none does."""

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dayzero
from dayzero.adapters.images.builder import DockerImageBuilder, docker_sdk
from dayzero.errors import BadInputError, DependencyError, MeasurementError, UnavailableError

TAG = "dayzero/test-image:1"


@contextmanager
def sdk_sockets_forgiven() -> Iterator[None]:
    """The SDK leaves the socket open that it could not connect; it is collected here, where that is no error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def context_of(tmp_path: Path, dockerfile: str) -> Path:
    (tmp_path / "Dockerfile").write_text(dockerfile)
    (tmp_path / "file.txt").write_text("content")
    return tmp_path


def test_no_engine_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    context = context_of(tmp_path, "FROM scratch\n")
    with sdk_sockets_forgiven(), pytest.raises(UnavailableError, match="DOCKER_HOST"):
        DockerImageBuilder().build(context, TAG)


@pytest.mark.parametrize("tag", ["", "UPPER:1", "name", "a b:1", "-x:1", "name:", "x:" + "y" * 300, "a//b:1", "x:1\n"])
def test_bad_tags_are_refused_before_any_engine_is_asked(tmp_path: Path, tag: str) -> None:
    with pytest.raises(BadInputError, match="no image name"):
        DockerImageBuilder().build(context_of(tmp_path, "FROM scratch\n"), tag)


def test_a_context_without_a_dockerfile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no Dockerfile"):
        DockerImageBuilder().build(tmp_path, TAG)


def test_a_folder_named_docker_does_not_pass_for_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "README.md").write_text("not the SDK")
    source = Path(dayzero.__file__).parents[1]
    program = (
        "import sys\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(source)!r}]\n"
        "from dayzero.adapters.images.builder import docker_sdk\n"
        "from dayzero.errors import DependencyError\n"
        "import docker\n"
        "try:\n    docker_sdk()\n"
        "except DependencyError as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "stands in for it" in ended.stdout
    assert "pip install docker" in ended.stdout


def test_the_sdk_itself_is_taken() -> None:
    try:
        assert docker_sdk().from_env is not None
    except DependencyError:
        pytest.skip("the Docker SDK is not installed here")


def engine_answers() -> bool:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=5)
        client.ping()
        client.close()
    except DockerException:
        return False
    return True


@pytest.fixture
def engine() -> None:
    with sdk_sockets_forgiven():
        answers = engine_answers()
    if not answers:
        assert not os.environ.get("DAYZERO_TEST_DOCKER"), "DAYZERO_TEST_DOCKER is set, and no Docker engine answers"
        pytest.skip("no Docker engine answers; DAYZERO_TEST_DOCKER=1 makes that a failure")


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_builds_with_labels_and_returns_the_digest(tmp_path: Path) -> None:
    import docker

    digest = DockerImageBuilder().build(context_of(tmp_path, "FROM scratch\nCOPY file.txt /\n"), TAG)
    client = docker.from_env()
    try:
        image = client.images.get(digest)
        assert image.id == digest
        assert digest.startswith("sha256:")
        assert image.labels["dayzero.tag"] == TAG
        assert TAG in image.tags
    finally:
        client.images.remove(TAG, force=True)
        client.close()


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_the_base_is_an_argument(tmp_path: Path) -> None:
    import docker

    base = DockerImageBuilder().build(context_of(tmp_path, "FROM scratch\nCOPY file.txt /\n"), "dayzero/test-base:1")
    client = docker.from_env()
    try:
        (tmp_path / "Dockerfile").write_text("ARG BASE=dayzero/does-not-exist:1\nFROM ${BASE}\nLABEL more=yes\n")
        digest = DockerImageBuilder(base="dayzero/test-base:1").build(tmp_path, TAG)
        assert client.images.get(digest).labels["more"] == "yes"
        assert digest != base
    finally:
        for tag in (TAG, "dayzero/test-base:1"):
            client.images.remove(tag, force=True)
        client.close()


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_a_build_that_fails_says_the_last_words(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"nosuchfile\.txt"):
        DockerImageBuilder().build(context_of(tmp_path, "FROM scratch\nCOPY nosuchfile.txt /\n"), TAG)
