"""One frozen Settings, read once from DAYZERO_* variables and one TOML file."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from dayzero.errors import BadInputError


class Settings(BaseSettings):
    """Every setting. A variable DAYZERO_NAME wins over `name` in the TOML file (DAYZERO_CONFIG, default dayzero.toml)."""

    model_config = SettingsConfigDict(env_prefix="DAYZERO_", frozen=True, extra="forbid")

    data_dir: Path = Field(Path(".dayzero"), description="Folder for the embedded database, artifacts, shards and logs.")
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL URL (postgresql+psycopg://…). Unset: an embedded server under the data folder."
    )
    host: str = Field("127.0.0.1", description="Address that the HTTP door and the Prefect server listen on.")
    port: int = Field(8711, description="Port of the HTTP door (ledger, compatibility list).", ge=0, le=65535)
    open_reading: bool | None = Field(
        None, description="Whether the list is read without a token; unset: only where the door listens on loopback."
    )
    reads_per_minute: int = Field(
        600, description="Reads that one token, or one address without, has in a minute at the door; 0: no limit.", ge=0
    )
    writes_per_minute: int = Field(
        60, description="Writes that one token, or one address without, has in a minute at the door; 0: no limit.", ge=0
    )
    wrong_tokens_per_minute: int = Field(
        20, description="Tokens that are not good which one address may show in a minute; 0: no limit.", ge=0
    )
    unlimited_networks: tuple[str, ...] = Field(
        ("127.0.0.0/8", "::1/128"), description="Networks (10.1.0.0/16) whose reads and writes at the door are not limited."
    )
    oidc_issuer: str | None = Field(
        None, description="Provider at which people sign in (OpenID Connect), by its name; unset: nobody signs in."
    )
    oidc_client_id: str | None = Field(None, description="This control plane's client id at the provider.")
    oidc_client_secret: SecretStr | None = Field(None, description="The client's secret; unset: a public client.")
    oidc_scopes: dict[str, Literal["read", "write", "admin"]] = Field(
        {}, description='What people of a group may do, such as {"ml-platform": "write"}; `*`: everybody that it lets in.'
    )
    oidc_groups_claim: str = Field(
        "groups", description="Claim of the ID token that lists somebody's groups; a path (realm_access.roles), or `email`."
    )
    oidc_ask_for: tuple[str, ...] = Field(("openid", "profile"), description="Scopes that the provider is asked for.")
    oidc_origins: tuple[str, ...] = Field(
        (), description="Further origins (https://host) of the provider's endpoints; its issuer's alone are contacted else."
    )
    oidc_session_s: float = Field(8 * 3600.0, description="Time after which people sign in again.", gt=0, le=30 * 86400.0)
    prefect_port: int = Field(4200, description="Port of the Prefect server that `dayzero up` starts.", ge=0, le=65535)
    prefect_api_url: str | None = Field(None, description="A Prefect API that already runs; unset: our own server.")
    hf_endpoint: str = Field("https://huggingface.co", description="Endpoint of the Hugging Face hub or a mirror.")
    hf_token: SecretStr | None = Field(None, description="Token for gated and private repositories.")
    hub_timeout_s: float = Field(30.0, description="Time after which a hub that does not answer counts as down.", gt=0)
    hub_retries: int = Field(4, description="Times that a retryable hub error is tried again.", ge=0, le=20)
    site_url: str | None = Field(
        None,
        description="A `dayzero hub serve --shards` of this site; what it says of slices counts where a trusted key signed it.",
    )
    trusted_keys: tuple[str, ...] = Field(
        (), description="Public keys (`dayzero keys show`) of the nodes whose word is taken for slices; none by default."
    )
    signing_key: Path | None = Field(
        None, description="File with the private key of this node; unset: keys/signing.pem under the data folder."
    )
    store_dir: Path | None = Field(
        None,
        description="Folder of the store of releases, which several data folders may share; unset: in this one.",
    )
    store_limit_bytes: int | None = Field(
        None, description="Bytes that the store may hold; the least recently used releases make room. Unset: no limit.", ge=0
    )
    hub_connections: int = Field(8, description="Connections to a hub at once.", ge=1, le=64)
    hub_bytes_per_s: float | None = Field(
        None, description="Bytes a second that a transfer may take over all its connections; unset: as many as come.", gt=0
    )
    checkpoint_bytes: int = Field(
        2 << 30,
        description="Bytes of shards between two moments at which they are made durable: a kill costs two of them at most.",
        ge=1 << 20,
    )
    approve_below_bytes: int = Field(
        500 * 10**9, description="Transfers of fewer bytes begin by themselves; larger ones wait for approval.", ge=0
    )
    approve_timeout_s: float = Field(
        7 * 24 * 3600.0, description="Time that a paused run waits for the approval of its transfer.", gt=0
    )
    public_url: str | None = Field(
        None, description="Address by which others know the door, for links in messages and feeds; unset: that it listens on."
    )
    subscriber_networks: tuple[str, ...] = Field(
        (),
        description="Networks (10.1.0.0/16) inside which subscribers may be told; else only public addresses are.",
    )
    secrets_key: Path | None = Field(
        None,
        description="File with the keys that lock subscribers' addresses and secrets; unset: keys/subscribers.key under the "
        "data folder.",
    )
    telling_lanes: int = Field(8, description="Subscribers that are told at once.", ge=1, le=64)
    poll_interval_s: float = Field(60.0, description="Time between two polls of the watched sources.", gt=0)
    reconcile_interval_s: float = Field(5.0, description="Time between two rounds of the reconciler.", gt=0)
    rehearse: bool = Field(True, description="Whether pre-staging rehearses the reduced architecture on its platform.")
    orphan_after_s: float = Field(60.0, description="Silence after which a running adaptation is started anew.", gt=0)
    max_attempts: int = Field(5, description="Starts after which an adaptation that keeps dying is failed.", ge=1)
    day_zero_target_s: float = Field(
        24 * 3600.0, description="Time from live weights to verified that platforms are measured by.", gt=0
    )
    age_interval_s: float = Field(
        60.0, description="Time between two looks for entries that no longer describe what is installed.", gt=0
    )
    reruns_at_once: int = Field(1, description="Stale entries of one platform that are run again at once; 0: none.", ge=0)
    platforms: tuple[str, ...] = Field(("cpu",), description="Platforms that `dayzero up` starts a local worker for.")
    platforms_dir: Path | None = Field(None, description="Folder with your own platform profiles (TOML).")
    plan_templates: Path | None = Field(None, description="File with your own planning templates (TOML).")
    stacks_dir: Path | None = Field(
        None, description="Folder with the lock files of stacks; unset: stacks under the data folder."
    )
    stacks: tuple[str, ...] = Field(
        (),
        description="Stacks in the order in which a release tries them, `installed` among them; unset: it, then all by name.",
    )
    cpu_devices: int = Field(2, description="Devices (processes) of the cpu platform.", ge=1, le=64)
    check_timeout_s: float = Field(1800.0, description="Wall time that one check may take.", gt=0)
    check_memory_bytes: int | None = Field(None, description="Memory that one check may take; unset: the platform's.")
    allow_remote_code: tuple[str, ...] = Field(
        (), description="Repositories whose own code may run once there is a container for it; this version runs none."
    )
    allow_pickle: tuple[str, ...] = Field(
        (),
        description="Repositories, by exact name, whose pickles (.bin) may be read, to be converted to safetensors in a child "
        "without network.",
    )
    ledger_url: str | None = Field(None, description="On a worker: the control plane's address.")
    worker_token: SecretStr | None = Field(None, description="On a worker: its scoped token.")
    operator_plugins: tuple[str, ...] = Field(
        (), description="Operator plugins to switch on: NAME[:option=value…][@MODEL-PATTERN], by entry point."
    )
    compile_cache: Path | None = Field(
        None, description="Folder of the compiler's cache, shared between data folders; unset: under the data folder."
    )
    compile_target: bool = Field(True, description="Compile the target where a C++ compiler is there.")
    tasks: bool = Field(True, description="Whether models that write text are asked the shipped downstream tasks.")
    layers_from: Literal["auto", "memory", "stream"] = Field(
        "auto", description="Whether checks hold a model in memory or stream its layers; auto: by their memory limit."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Variables win over the TOML file."""
        import os

        path = Path(os.environ.get("DAYZERO_CONFIG", "dayzero.toml"))
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)


def load_settings(**overrides: object) -> Settings:
    """The settings; BadInputError names the variable or field that is wrong."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise BadInputError(
            f"setting {name} is not usable: {first['msg']}.", remedy=f"Correct DAYZERO_{name.upper()} or dayzero.toml."
        ) from error
    except SettingsError as error:
        raise BadInputError(
            f"a setting is not usable: {error}: {error.__cause__}.", remedy="Lists and tables in variables are written as JSON."
        ) from error
