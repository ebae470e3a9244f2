"""Environment of Prefect's own processes: quiet, local, under our data folder."""

from pathlib import Path

from dayzero.errors import BadInputError

LOOPBACK = "127.0.0.1,localhost,::1"


def client_environment(api_url: str, home: Path) -> dict[str, str]:
    """What a Prefect client or worker needs: its API, a home of its own, no telemetry, no proxies for loopback."""
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "NO_PROXY": LOOPBACK,
        "no_proxy": LOOPBACK,
    }


def server_environment(database_url: str, host: str, port: int, home: Path) -> dict[str, str]:
    """What the Prefect server needs to run on our Postgres, in a database of its own."""
    return {
        **client_environment(api_url(host, port), home),
        "PREFECT_API_DATABASE_CONNECTION_URL": asyncpg_url(database_url),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": asyncpg_url(database_url),
        "PREFECT_SERVER_API_HOST": host,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_API_URL": f"{api_url(host, port)}",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_SERVER_DATABASE_SQLALCHEMY_POOL_SIZE": "5",
        "PREFECT_SERVER_DATABASE_SQLALCHEMY_MAX_OVERFLOW": "10",
    }


def api_url(host: str, port: int) -> str:
    """The address under which a client on this host reaches a Prefect server that listens on host and port."""
    reachable = "127.0.0.1" if host in {"0.0.0.0", "::"} else host
    return f"http://[{reachable}]:{port}/api" if ":" in reachable else f"http://{reachable}:{port}/api"


def asyncpg_url(database_url: str) -> str:
    """The same database for Prefect's driver; BadInputError for what is no PostgreSQL URL."""
    scheme, separator, rest = database_url.partition("://")
    if not separator or not scheme.startswith("postgres"):
        raise BadInputError("the database URL is not one of PostgreSQL (postgresql+psycopg://…).")
    return f"postgresql+asyncpg://{rest}"
