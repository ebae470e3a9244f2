"""Pictures of pages for the documentation: light, dark, and as wide as a phone.

`python tests/picture_pages.py URL FOLDER NAME=PATH … [--token TOKEN]` writes NAME-light.png, NAME-dark.png and NAME-phone.png.
"""

import argparse
import base64
from pathlib import Path
from tempfile import TemporaryDirectory

from chromium import Tab, browsing

WIDE, PHONE = (1280, 860), (390, 844)
LOOKS = (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE))


def picture(tab: Tab, url: str, file: Path, colours: str, size: tuple[int, int]) -> None:
    """What a reader of these colours sees first in a window of this size."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    tab.ask("Emulation.setDeviceMetricsOverride", **metrics)
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
    tab.open(url)
    file.write_bytes(base64.b64decode(tab.ask("Page.captureScreenshot", format="png")["data"]))


def main() -> None:
    """Draw every page in every look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="+", metavar="NAME=PATH")
    parser.add_argument("--token")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="dayzero-") as folder, browsing(Path(folder)) as tab:
        if given.token:
            tab.open(f"{given.url}/session")
            tab.evaluate(f"document.querySelector('input[name=token]').value = '{given.token}'")
            tab.evaluate("document.querySelector('main form').submit()")
            tab.until("document.readyState === 'complete' && document.querySelector('form[action=\"/session/end\"]') !== null")
        for page in given.pages:
            name, _, path = page.partition("=")
            for look, colours, size in LOOKS:
                picture(tab, given.url + path, given.folder / f"{name}-{look}.png", colours, size)


if __name__ == "__main__":
    main()
