"""A process that fills a store, and evicts from it, until it is killed: `store_churn.py MODELS STORE LIMIT_BYTES SEED`."""

import random
import sys
from pathlib import Path

from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.objects.hub import StoredHub
from dayzero.adapters.objects.store import ObjectStore
from dayzero.errors import BlockedError


def main(models: str, store_dir: str, limit_bytes: str, seed: str) -> None:
    drawn, store = random.Random(int(seed)), ObjectStore(Path(store_dir), int(limit_bytes))
    homes = sorted(path for path in Path(models).glob("*/*") if path.is_dir())
    known = [(hub, hub.release(str(home), None)) for home in homes for hub in (DirectoryHub(home),)]
    print("begun", flush=True)
    while True:
        hub, release = drawn.choice(known)
        into = store.folder.model(release.content_id)
        try:
            with store.taking(release, release.files):
                for file in release.files:
                    StoredHub(hub, store).download(release, file.path, into, None)
        except BlockedError:
            continue
        if drawn.random() < 0.3:
            store.sweep()


if __name__ == "__main__":
    main(*sys.argv[1:])
