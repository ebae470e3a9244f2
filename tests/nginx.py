"""nginx over a folder, for comparisons: the same files from the same disk."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

_CONFIGURATION = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
  client_body_temp_path {home}/t1; proxy_temp_path {home}/t2; fastcgi_temp_path {home}/t3;
  uwsgi_temp_path {home}/t4; scgi_temp_path {home}/t5;
  server {{ listen 127.0.0.1:{port}; location / {{ root {root}; }} }}
}}
"""


def is_installed() -> bool:
    """Whether there is an nginx to compare with."""
    return shutil.which("nginx") is not None or Path("/usr/sbin/nginx").exists()


class Nginx:
    """Serves a folder while the context is open; `url` is its address."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._home = tempfile.TemporaryDirectory(prefix="nginx-")
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "Nginx":
        home = Path(self._home.name)
        home.chmod(0o755)
        configuration = home / "nginx.conf"
        text = _CONFIGURATION.format(home=home, port=self._port, root=self._root)
        # Workers drop to another user, who may not read a test's folder.
        configuration.write_text("user root;" + text)
        command = [shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(configuration), "-p", str(home)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(200):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", self._port)) == 0:
                    return self
            time.sleep(0.05)
        self.__exit__(None, None, None)
        raise RuntimeError("nginx did not start")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._home.cleanup()
