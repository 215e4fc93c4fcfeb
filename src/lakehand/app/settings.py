# SPDX-License-Identifier: Apache-2.0
"""The settings of the service: options override the environment, which overrides lakehand.toml and the defaults."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from lakehand.app.config_file import ConfigChoice, choose_config, exposed_secrets, merged, read_config
from lakehand.app.plugins import EVERY, PluginConfig
from lakehand.app.secrets import check_writer_secret, checked_tokens, read_tokens
from lakehand.app.setting_groups import (
    AlertSettings,
    OidcSettings,
    StorageSettings,
    TelemetrySettings,
    is_in_s3,
    read_alerts,
    read_oidc,
)
from lakehand.app.setting_types import Duration, Texts, Words, setting
from lakehand.core.plugins.registry import Plugins
from lakehand.core.services.catalogs import ServedCatalog
from lakehand.domain.actions import actions
from lakehand.domain.errors import Invalid
from lakehand.domain.masks import Masks, odd_parts_of, secrets_in, secrets_in_address
from lakehand.domain.processes import RetryPolicy
from lakehand.domain.rules import Limits
from lakehand.domain.tables import Catalog, Format
from lakehand.rest.refusals import checked_name

PLUGIN_KINDS = {"process-factories": "process-factory", "table-formats": "table-format", "engines": "engine"}
ALIASES = {"warehouse": "warehouses"}
DELTA_LOG_STORE = "spark.delta.logStore.s3a.impl"  # the factory decides by it whether commits are safe


def strong_secret(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    others = info.data.get("wire_token") if info.field_name == "callback_key" else None
    check_writer_secret(secret, info.data.get("tokens", {}), others)
    return secret


def paired(key: Path | None, info: ValidationInfo) -> Path | None:
    if (key is None) != (info.data.get("tls_certificate") is None):
        raise ValueError("tls_certificate and tls_key belong together: set both, or none for plain HTTP")
    return key


HostNames = Annotated[Words, AfterValidator(lambda hosts: [checked_name(host) for host in hosts])]
Networks = Annotated[Words, AfterValidator(lambda names: [str(ip_network(name, strict=False)) for name in names])]
AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
Tokens = Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(read_tokens), AfterValidator(checked_tokens)]
WriterSecret = Annotated[SecretStr, AfterValidator(strong_secret)]


class RetrySettings(BaseModel, extra="forbid"):
    max_attempts: int = setting(5, "Attempts of an operation before it fails.", ge=1)
    first_delay: Duration = setting(timedelta(seconds=30), "Delay before the second attempt.")
    factor: float = setting(2.0, "Factor by which the delay grows with each attempt.", ge=1)
    longest_delay: Duration = setting(timedelta(hours=1), "Longest delay.")
    jitter: float = setting(0.2, "Random share added to the delay.", ge=0, le=1)
    not_yet_delay: Duration = setting(timedelta(seconds=30), "Delay after a `not yet` answer.")
    max_deferrals: int = setting(120, "`Not yet` answers before an operation fails.", ge=0)

    @model_validator(mode="before")
    @classmethod
    def refuse_old_name(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "max_patience" in values:
            raise ValueError("max_patience is now max_deferrals")
        return values


class LimitSettings(BaseModel, extra="forbid"):
    running: int = setting(0, "Operations at once over all instances; 0: as many as the engines take.", ge=0)
    queues: dict[str, int] = setting({}, "Operations at once per queue.")
    queue_default: int = setting(0, "Limit of every other queue; 0: none.", ge=0)
    owner_share: float = setting(0.5, "Largest share of one owner while others wait.", gt=0, le=1)
    age_step: Duration = setting(timedelta(minutes=10), "Priority rises by one per this much waiting.")


class PluginSettings(BaseModel, extra="forbid"):
    enabled: bool = True
    priority: int = 0
    properties: Texts = {}


def known_kinds(plugins: dict[str, dict[str, PluginSettings]]) -> dict[str, dict[str, PluginSettings]]:
    if unknown := sorted(set(plugins) - set(PLUGIN_KINDS)):
        raise ValueError(f"[plugins.{unknown[0]}] is not a kind of plugin: {', '.join(PLUGIN_KINDS)}")
    return plugins


class CatalogSettings(BaseModel, extra="forbid"):
    """A catalog whose tables are served: its type, and properties that are passed to it."""

    format: str = "iceberg"
    type: str = "hadoop"
    properties: Texts = {}
    sync: bool = True  # register new tables and retire dropped ones
    actions: Words = []  # of the registered tables; empty: all of the format
    owner: str = "default"
    queue: str = "default"


class Settings(BaseSettings):
    """Every setting with its default and meaning."""

    model_config = SettingsConfigDict(env_prefix="LAKEHAND_", env_nested_delimiter="__", extra="forbid")

    home: AbsolutePath = setting(Path("~/.lakehand"), "Folder of this instance: database, spool and logs.")
    host: str = setting("127.0.0.1", "Address to listen on. Any other than loopback needs a token.")
    insecure: bool = setting(False, "Listen on any address without a token: everybody who reaches it is an admin.")
    port: int = setting(9091, "Port to listen on; 0: any free port.", ge=0, le=65535)
    grpc_port: Annotated[int, Field(ge=0, le=65535)] | None = setting(
        None, "Port of the gRPC API, usually 9092; 0: any free port. Without it, there is none."
    )
    allowed_hosts: HostNames = setting([], "More host names that requests may use, such as `lakehand` or `*.internal`.")
    trusted_proxies: Networks = setting(
        [], "Addresses or networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."
    )
    database: SecretStr | None = setting(
        None, "URL: `sqlite:////file`, `postgresql://...` or `mysql://...`. Default: SQLite in home."
    )
    warehouses: Words = setting([], "Folders and URIs whose tables may be served. Nothing outside is touched.")
    tokens: Tokens = setting(
        {},
        "Tokens of admins by name (`Authorization: Bearer`). Without any token, the API is open to everyone.",
        validate_default=False,  # no setting is allowed; an empty one is a mistake
    )
    wire_token: WriterSecret | None = setting(None, "Token that Hudi's client must send as `?token=`.")
    callback_key: WriterSecret | None = setting(None, "Key that commit callbacks must send as `HUDI-CALLBACK-KEY`.")
    oidc: Annotated[OidcSettings, AfterValidator(read_oidc)] = setting(
        OidcSettings(), "The issuer whose bearer tokens are accepted."
    )
    tls_certificate: AbsolutePath | None = setting(None, "Certificate and its chain, in PEM. With it, HTTPS is served.")
    tls_key: Annotated[AbsolutePath | None, AfterValidator(paired)] = setting(
        None, "Private key of the certificate, in PEM."
    )
    max_body: int = setting(64 * 1024, "Largest body of an API request, in bytes.", ge=1024)
    max_commits_body: int = setting(1024 * 1024, "Largest body of a request with commit events, in bytes.", ge=1024)
    max_callback_body: int = setting(
        16 * 1024 * 1024, "Largest part of a commit callback that is read, in bytes.", ge=1024
    )
    dashboard: bool = setting(True, "Serve the dashboard at /.")
    max_connections: int = setting(2048, "Connections at once.", ge=64)
    max_connections_per_client: int = setting(1024, "Connections at once per client; at most half of all.", ge=16)
    heartbeat_timeout: Duration = setting(
        timedelta(minutes=10), "A table is probed after this long without a notification; tables can override it."
    )
    lease: Duration = setting(
        timedelta(seconds=60), "How long an instance keeps an operation without renewing its lease."
    )
    lease_margin: Duration = setting(
        timedelta(seconds=10), "Extra time after a lease before another instance takes over."
    )
    new_tables_per_minute: int = setting(600, "Tables auto-registered per minute from notifications.", ge=0)
    keep_history: Duration = setting(timedelta(days=30), "Age at which finished operations and events are removed.")
    keep_audit: Duration = setting(timedelta(days=365), "Age at which entries of the audit trail are removed.")
    retry: RetrySettings = setting(RetrySettings(), "When and how often a failed operation is retried.")
    limits: LimitSettings = setting(LimitSettings(), "How much may run at once.")
    storage: StorageSettings = setting(StorageSettings(), "How to reach object stores: `[storage.s3]`.")
    spark: Texts = setting({}, "Properties of the spark engine; `spark.*` keys go to Spark itself.")
    plugins: Annotated[dict[str, dict[str, PluginSettings]], AfterValidator(known_kinds)] = setting(
        {}, "Switches and properties of plugins: `[plugins.engines.NAME]` and so on."
    )
    catalogs: dict[str, CatalogSettings] = setting(
        {}, "Catalogs whose tables are served: `[catalogs.NAME]` with `format`, `type` and more."
    )
    alerts: Annotated[AlertSettings, AfterValidator(read_alerts)] = setting(
        AlertSettings(), "Who is told when something needs a person."
    )
    telemetry: TelemetrySettings = setting(TelemetrySettings(), "Traces and lineage for the tools around it.")
    catalog_sync: Duration = setting(timedelta(minutes=5), "How often catalogs are synchronised.")
    jars: AbsolutePath | None = setting(None, "Folder of the jars. Default: `jars` in home.")
    drain_timeout: Duration | None = setting(
        None, "On SIGTERM, how long running work may take to end before the service stops. Default: it does not wait."
    )
    stop_driver: bool = setting(
        False, "Stop the Spark driver with the service instead of keeping it for the next start."
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "Lowest level that is logged.")
    log_format: Literal["auto", "text", "json"] = setting(
        "auto", "`text`, `json`, or `auto`: text on a terminal, else JSON."
    )

    _config: ConfigChoice = ConfigChoice()

    @property
    def config(self) -> ConfigChoice:
        """The file of these settings."""
        return self._config

    @property
    def database_url(self) -> str:
        if self.database is not None:
            return self.database.get_secret_value()
        return f"sqlite:///{self.home / 'lakehand.db'}"

    @property
    def jar_folder(self) -> Path:
        return self.jars or self.home / "jars"

    @property
    def all_warehouses(self) -> list[str]:
        """Including the warehouses of catalogs, because configuring a catalog allows it."""
        return [*self.warehouses, *(c.warehouse for c in self.catalog_map().values() if "/" in c.warehouse)]

    def catalog_map(self) -> Mapping[str, Catalog]:
        return {
            name: Catalog(
                name=name, format=Format(one.format), type=one.type,
                properties={**self.file_properties(one), **one.properties},
            )
            for name, one in self.catalogs.items()
        }  # fmt: skip

    def file_properties(self, catalog: CatalogSettings) -> Mapping[str, str]:
        """How Iceberg reaches the files of a catalog. Hadoop layout is read by Spark's own file systems."""
        if catalog.format != "iceberg" or catalog.type == "hadoop":
            return {}
        warehouse = catalog.properties.get("warehouse", "")
        if catalog.type == "rest":
            return self.storage.rest_properties(warehouse, catalog.properties)
        return self.storage.catalog_properties(warehouse)

    @property
    def storage_schemes(self) -> tuple[str, ...]:
        """The object stores that Spark needs jars for."""
        is_used = bool(self.storage.properties()) or any(is_in_s3(one) for one in self.all_warehouses)
        return ("s3",) if is_used else ()

    def served_catalogs(self) -> Mapping[str, ServedCatalog]:
        known = self.catalog_map()
        return {
            name: ServedCatalog(
                catalog=known[name], sync=one.sync, actions=actions(one.actions), owner=one.owner, queue=one.queue
            )
            for name, one in self.catalogs.items()
        }

    def secret(self, name: Literal["wire_token", "callback_key"]) -> str:
        value: SecretStr | None = getattr(self, name)
        return value.get_secret_value() if value else ""

    def token_secrets(self) -> Mapping[str, str]:
        return {name: secret.get_secret_value() for name, secret in self.tokens.items()}

    def masks(self) -> Masks:
        """Hides all that is secret among the settings, in texts that others write."""
        receivers = (one.all_properties() for one in self.alerts.receivers.values())
        own = [
            *self.token_secrets().values(), self.secret("wire_token"), self.secret("callback_key"),
            *secrets_in_address(self.database_url), *secret_values(self.telemetry),
            *(part for one in receivers for value in one.values() for part in (value, *odd_parts_of(value))),
            *(one for each in self.plugin_configs().values() for one in secrets_in(each.properties, is_strict=False)),
        ]  # fmt: skip
        catalogs = (one.properties for one in self.catalog_map().values())
        return Masks.of(*catalogs, self.storage.properties(), secrets=own)

    def plugin_configs(self) -> Mapping[tuple[str, str], PluginConfig]:
        """By (kind, name). ``[spark]`` is short for the properties of the spark engine."""
        from lakehand.engines.spark_submit.settings import SHARED  # most commands need no engine

        configs = {
            (PLUGIN_KINDS[kind], name): PluginConfig(
                enabled=one.enabled, priority=one.priority, properties=dict(one.properties)
            )
            for kind, named in self.plugins.items()
            for name, one in named.items()
        }
        configs["table-format", EVERY] = PluginConfig(properties=self.storage.properties())
        if log_store := self.spark.get(DELTA_LOG_STORE):
            delta = configs.get(("process-factory", "delta"), PluginConfig())
            properties = {**delta.properties, "delta.log-store": log_store}
            configs["process-factory", "delta"] = replace(delta, properties=properties)
        own = configs.get(("engine", "spark"), PluginConfig())
        properties = {**engine_properties(self.spark), **own.properties}
        configs["engine", "spark"] = PluginConfig(enabled=own.enabled, priority=own.priority, properties=properties)
        # Off unless it is named: each of its applications takes memory of this machine.
        other = configs.get(("engine", "spark-submit"), PluginConfig(enabled=False))
        shared = {key: text for key, text in properties.items() if key in SHARED or key.startswith("conf.")}
        configs["engine", "spark-submit"] = replace(other, properties={**shared, **other.properties})
        return configs

    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy(**dict(self.retry))

    def dispatch_limits(self, plugins: Plugins) -> Limits:
        """The limits, with the parallelism of each factory."""
        parallelism = {
            (str(name), str(action)): plugins.strategy(name, action).parallelism for name, action in plugins.factories
        }
        return Limits(**dict(self.limits), parallelism=parallelism)


def secret_values(settings: BaseModel) -> Iterator[str]:
    """The values of all fields that are secret."""
    for _, value in settings:
        found = value.values() if isinstance(value, Mapping) else [value]
        yield from (one.get_secret_value() for one in found if isinstance(one, SecretStr))


def engine_properties(spark: Mapping[str, str]) -> Texts:
    """``spark.x.y`` goes to Spark unchanged; the engine's own properties may have underscores."""
    return {f"conf.{key}" if key.startswith("spark.") else key.replace("_", "-"): text for key, text in spark.items()}


def load(flags: Mapping[str, Any] | None = None, config: Path | None = None) -> Settings:
    """The effective settings. ``flags`` are the command line's options; None means not given."""
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    environment = {**EnvSettingsSource(Settings)(), **aliased_environment()}
    home = given.get("home") or environment.get("home") or Settings.model_fields["home"].default
    choice = choose_config(config, Path(home))
    file = choice.file
    in_file = read_config(file) if file else {}
    if file and (exposed := exposed_secrets(file, in_file)):
        choice = ConfigChoice(file=file, warnings=(*choice.warnings, exposed))
    try:
        settings = Settings(**merged(renamed(in_file), environment, renamed(given)))
    except (ValidationError, ValueError) as error:
        raise Invalid(f"the settings are not valid{f' (with {file})' if file else ''}: {described(error)}") from None
    settings._config = choice  # noqa: SLF001 - no setting: it is not read from the file
    return settings


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {ALIASES.get(name, name): value for name, value in values.items()}


def aliased_environment() -> dict[str, Any]:
    named = {alias: os.environ.get(f"LAKEHAND_{alias.upper()}") for alias in ALIASES}
    return renamed({alias: value for alias, value in named.items() if value is not None})


def described(error: Exception) -> str:
    """The names of the settings and the errors; never the values, which may be secret."""
    if not isinstance(error, ValidationError):
        return "a value cannot be read"
    faults = error.errors(include_input=False, include_context=False, include_url=False)
    return "; ".join(f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults)
