"""A process of subscribers that log every message before they answer: `python delivery_receiver.py PORT FOLDER SECRET`.

POST /NAME is taken by NAME. A file NAME.mood in the folder says how it answers: `slow MS`, `flaky SHARE`, `broken`, `mute`.
"""

import asyncio
import hashlib
import json
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

from standardwebhooks import Webhook, WebhookVerificationError

ANSWERS = {200: b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 500: b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno"}


class Subscribers:
    """Who is told here."""

    def __init__(self, folder: Path, secret: str) -> None:
        self._folder = folder
        self._webhook = Webhook(secret)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                name = head[0].split(" ")[1].strip("/")
                headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:] if ":" in line}
                body = await reader.readexactly(int(headers["content-length"]))
                status = await self._answer(name, headers, body)
                writer.write(ANSWERS[status])
                await writer.drain()
        writer.close()

    async def _answer(self, name: str, headers: dict[str, str], body: bytes) -> int:
        try:
            mood, _, how = (self._folder / f"{name}.mood").read_text().partition(" ")
        except FileNotFoundError:
            mood, how = "", ""
        if mood == "slow":
            await asyncio.sleep(float(how) / 1000)
        if mood == "mute":
            await asyncio.sleep(3600)
        if mood == "broken" or (mood == "flaky" and random.random() < float(how)):
            return 500
        self._log(name, headers, body)
        return 200

    def _log(self, name: str, headers: dict[str, str], body: bytes) -> None:
        try:
            self._webhook.verify(body, headers)
            verified = True
        except WebhookVerificationError:
            verified = False
        told = json.loads(body)
        line = [headers["webhook-id"], told["id"], told["data"]["subject"], verified, hashlib.sha256(body).hexdigest()]
        descriptor = os.open(self._folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)


async def main(port: int, folder: Path, secret: str) -> None:
    server = await asyncio.start_server(Subscribers(folder, secret).serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
