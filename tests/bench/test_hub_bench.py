"""The hub's server against nginx: the same files from the same disk to the same clients, interleaved; ratios, not times.

DAYZERO_BENCH_BYTES sets how much one round moves (default 512 MiB), DAYZERO_BENCH_ROUNDS how often (default 5).
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench_hubs import Mimic, OurHub
from hub_models import noise
from nginx import Nginx, is_installed

ROUNDS = int(os.environ.get("DAYZERO_BENCH_ROUNDS", "5"))
TOTAL_BYTES = int(os.environ.get("DAYZERO_BENCH_BYTES", str(512 << 20)))
FILES = 4
REPO = "acme/wide"

pytestmark = pytest.mark.skipif(not is_installed() or shutil.which("curl") is None, reason="needs nginx and curl")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "models"
    home = folder / REPO
    home.mkdir(parents=True)
    (home / "config.json").write_text('{"model_type": "llama"}')
    block = noise(1 << 20, b"bench")
    for number in range(1, FILES + 1):
        with (home / f"model-{number:05d}-of-{FILES:05d}.safetensors").open("wb") as file:
            for _ in range(TOTAL_BYTES // FILES >> 20):
                file.write(block)
    return folder


def names() -> list[str]:
    return [f"model-{number:05d}-of-{FILES:05d}.safetensors" for number in range(1, FILES + 1)]


def curl(urls: list[str], *, parallel: bool) -> None:
    """Fetch and discard."""
    outs = [part for url in urls for part in ("-o", "/dev/null", url)]
    subprocess.run(["curl", "-sSf", *(["-Z"] if parallel else []), *outs], check=True)


def timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@pytest.mark.parametrize("parallel", [False, True], ids=["one-by-one", "parallel"])
def test_curl_from_us_and_from_nginx(models: Path, capsys: pytest.CaptureFixture[str], parallel: bool) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    with Nginx(models) as nginx, OurHub(models) as hub:
        from_hub = [f"{hub.url}/{REPO}/resolve/main/{name}" for name in names()]
        from_nginx = [f"{nginx.url}/{REPO}/{name}" for name in names()]
        curl(from_hub, parallel=parallel)
        curl(from_nginx, parallel=parallel)
        for _ in range(ROUNDS):
            theirs.append(timed(lambda: curl(from_nginx, parallel=parallel)))
            ours.append(timed(lambda: curl(from_hub, parallel=parallel)))
    ratio = statistics.median(theirs) / statistics.median(ours)
    with capsys.disabled():
        rate = TOTAL_BYTES / statistics.median(ours) / 1e9
        print(f"\ncurl of {TOTAL_BYTES:,} bytes: nginx {statistics.median(theirs):.3f} s, hub serve ", end="")
        print(f"{statistics.median(ours):.3f} s ({rate:.2f} GB/s): {ratio:.2f} x nginx, of {ROUNDS} interleaved rounds")
    assert all(each > 0 for each in ours)


def test_hf_download_from_us_and_curl_from_nginx(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    command = [
        sys.executable,
        "-c",
        "from huggingface_hub import snapshot_download as d; import sys; d(sys.argv[1], local_dir=sys.argv[2])",
    ]

    def download(url: str) -> None:
        place = tmp_path / "ours"
        environment = {**os.environ, "HF_ENDPOINT": url, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
        subprocess.run([*command, REPO, str(place)], check=True, env=environment, stdout=subprocess.DEVNULL)

    with Nginx(models) as nginx, OurHub(models) as hub, Mimic(nginx.url, models) as mimic:
        for _ in range(ROUNDS):
            theirs.append(timed(lambda: download(mimic.url)))
            shutil.rmtree(tmp_path / "ours")
            ours.append(timed(lambda: download(hub.url)))
            assert (tmp_path / "ours" / names()[0]).stat().st_size == TOTAL_BYTES // FILES
            shutil.rmtree(tmp_path / "ours")
    ratio = statistics.median(theirs) / statistics.median(ours)
    with capsys.disabled():
        print(
            f"\nhf download of {TOTAL_BYTES:,} bytes: bytes from nginx {statistics.median(theirs):.3f} s, from hub serve ",
            end="",
        )
        print(f"{statistics.median(ours):.3f} s: {ratio:.2f} x nginx, of {ROUNDS} interleaved rounds")
