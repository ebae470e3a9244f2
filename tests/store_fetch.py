"""A process that brings every file of a repository into a store: `python store_fetch.py ENDPOINT REPO STORE [HALT_AT_BYTES]`.

It prints a line for each wait, for the halt and for its end. After HALT_AT_BYTES of a file it waits for a line on stdin.
"""

import sys
from pathlib import Path

from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.objects.store import ObjectStore


def say(line: str) -> None:
    print(line, flush=True)


def main(endpoint: str, repo_id: str, store_dir: str, halt_at_bytes: str = "") -> None:
    hub = HuggingFaceHub(endpoint, None)
    release = hub.release(repo_id, None)
    store = ObjectStore(Path(store_dir), tell=say)
    halts = [int(halt_at_bytes)] if halt_at_bytes else []

    def progress(done: int, total: int | None) -> None:
        if halts and done >= halts[0]:
            halts.clear()
            say("halted")
            sys.stdin.readline()

    with store.taking(release, release.files):
        for file in release.files:
            store.obtain(hub, release, file, progress)
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
