"""The environment of each process of the group: what it needs, and for a worker nothing else."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import SecretStr

from dayzero.settings import Settings

PREFIX = "DAYZERO_"
WORKER_SETTINGS = (
    "hf_endpoint",
    "hf_token",
    "hub_timeout_s",
    "hub_retries",
    "hub_connections",
    "hub_bytes_per_s",
    "site_url",
    "store_dir",
    "store_limit_bytes",
    "checkpoint_bytes",
    "approve_below_bytes",
    "approve_timeout_s",
    "platforms_dir",
    "stacks_dir",
    "stacks",
    "cpu_devices",
    "check_timeout_s",
    "check_memory_bytes",
    "allow_remote_code",
    "allow_pickle",
    "operator_plugins",
    "compile_cache",
    "compile_target",
    "tasks",
    "layers_from",
    "orphan_after_s",
)
"""What a worker is told of the settings: no database, no data folder of the control plane."""

WORKER_VARIABLES = (
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "COVERAGE_FILE",
    "COVERAGE_PROCESS_START",
    "COVERAGE_PROCESS_CONFIG",
)
CONTROL_ONLY = ("DAYZERO_LEDGER_URL", "DAYZERO_WORKER_TOKEN")


def settings_environment(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """The named settings as variables; unset ones are left out, paths are absolute."""
    environment = {}
    for name in names:
        value: object = getattr(settings, name)
        if value is None:
            continue
        environment[PREFIX + name.upper()] = _text(value)
    return environment


def _text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value.expanduser().resolve())
    if isinstance(value, tuple):
        return json.dumps(list(value))
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def control_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """For processes of the control plane: our own environment, with every setting pinned to what it is here."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(("PREFECT_", PREFIX)) and name not in CONTROL_ONLY
    }
    every = [name for name in type(settings).model_fields if name not in {"ledger_url", "worker_token"}]
    return {**kept, **settings_environment(settings, every), "DAYZERO_CONFIG": os.devnull, "PATH": own_path(inherited)}


def worker_environment(
    settings: Settings, inherited: Mapping[str, str], *, data_dir: Path, ledger_url: str, token: str
) -> dict[str, str]:
    """For a platform's worker: an allow-list, its own folder, the ledger's address and its token."""
    kept = {name: inherited[name] for name in WORKER_VARIABLES if name in inherited}
    return {
        **kept,
        **settings_environment(settings, WORKER_SETTINGS),
        "DAYZERO_CONFIG": os.devnull,
        "DAYZERO_DATA_DIR": str(data_dir),
        "DAYZERO_LEDGER_URL": ledger_url,
        "DAYZERO_WORKER_TOKEN": token,
        "PATH": own_path(inherited),
    }


def own_path(inherited: Mapping[str, str]) -> str:
    """PATH with our own interpreter first: runs are started as `python`."""
    return os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)])
