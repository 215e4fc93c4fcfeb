# SPDX-License-Identifier: Apache-2.0
"""The settings that are groups of their own: [telemetry], [storage], [alerts] and [oidc].

Those of object stores are said once, and given to readers, Spark and catalogs alike. Errors about alerts name the
receiver, never its URL.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import time, timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from lakehand.app.secrets import check_secret
from lakehand.app.setting_types import Duration, Texts, Words, setting
from lakehand.core.loops.alerts import AlertLimits
from lakehand.domain.alerts import AlertRules, QuietHours, Route, Severity

S3_SCHEMES = ("s3", "s3a", "s3n")
# What Iceberg calls the same things in the properties of a catalog.
CATALOG_NAMES = {"s3.region": "client.region"}
# Asks a REST catalog for credentials or signatures with each table. Our reader asks for the first by itself.
DELEGATION, DELEGATED = "header.X-Iceberg-Access-Delegation", "vended-credentials,remote-signing"
FILE_IO = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\s*-\s*([01][0-9]|2[0-3]):([0-5][0-9])")

RoleName = Literal["viewer", "operator", "admin"]


def web_address(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("it is not an address: use http://HOST:PORT")
    return text


Address = Annotated[str, AfterValidator(web_address)]


class TelemetrySettings(BaseModel, extra="forbid"):
    otlp_endpoint: Address | None = setting(
        None, "Address of an OpenTelemetry collector (OTLP over HTTP); none: no traces."
    )
    otlp_headers: dict[str, SecretStr] = setting({}, "Headers for the collector, for instance a token.")
    openlineage_url: Address | None = setting(
        None, "Address of an OpenLineage receiver such as Marquez; none: no lineage."
    )
    openlineage_api_key: SecretStr | None = setting(None, "Key that the receiver asks for.")
    namespace: str = setting("lakehand", "Namespace of our jobs in OpenLineage.")
    timeout: Duration = setting(timedelta(seconds=5), "Time for one request to either.")


class BucketSettings(BaseModel, extra="forbid"):
    endpoint: Address | None = setting(None, "Address of the store; none: AWS.")
    region: str | None = setting(None, "Region of the buckets.")
    path_style_access: bool | None = setting(None, "Bucket in the path. Default: with an endpoint, yes.")
    access_key_id: SecretStr | None = setting(None, "Key; none: environment, profile or role of the machine.")
    secret_access_key: SecretStr | None = setting(None, "Its secret.")
    session_token: SecretStr | None = setting(None, "Token of temporary credentials.")

    def properties(self, prefix: str) -> Iterator[tuple[str, str]]:
        for name, value in self:
            if name in BucketSettings.model_fields and value not in (None, ""):
                text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
                yield f"{prefix}{name.replace('_', '-')}", text.lower() if isinstance(value, bool) else text


def paired(one: BucketSettings) -> BucketSettings:
    if (one.access_key_id is None) != (one.secret_access_key is None):
        raise ValueError("access_key_id and secret_access_key belong together: set both, or none")
    return one


class S3Settings(BucketSettings):
    buckets: dict[str, Annotated[BucketSettings, AfterValidator(paired)]] = setting(
        {}, "What differs for one bucket: `[storage.s3.buckets.NAME]`."
    )


class StorageSettings(BaseModel, extra="forbid"):
    s3: Annotated[S3Settings, AfterValidator(paired)] = setting(S3Settings(), "S3, and stores with the same API.")

    def properties(self) -> dict[str, str]:
        """For readers and engines. They hold secrets."""
        found = dict(self.s3.properties("s3."))
        for name, one in self.s3.buckets.items():
            found |= one.properties(f"s3.bucket.{name}.")
        return found

    def rest_properties(self, warehouse: str, said: Collection[str]) -> Mapping[str, str]:
        """For an Iceberg REST catalog, whose warehouse is often a name: what it hands out wins over all of these.

        ``said``: the properties that the catalog has already.
        """
        delegation = {} if any(key.endswith(DELEGATION) for key in said) else {f"engine.{DELEGATION}": DELEGATED}
        if is_in_s3(warehouse):
            return {**delegation, **self.catalog_properties(warehouse)}
        # Where its tables are is not known: nothing of it chooses a class.
        found = self.catalog_properties("s3://")
        return {**delegation, **{key: value for key, value in found.items() if key not in FILE_IO}}

    def catalog_properties(self, warehouse: str) -> Mapping[str, str]:
        """For an Iceberg catalog with its files in S3; what the catalog says of itself wins."""
        scheme, _, rest = warehouse.partition("://")
        if scheme not in S3_SCHEMES:
            return {}
        bucket = self.s3.buckets.get(rest.partition("/")[0])
        found = {**dict(self.s3.properties("s3.")), **(dict(bucket.properties("s3.")) if bucket else {})}
        if self.s3.endpoint and "s3.path-style-access" not in found:
            found["s3.path-style-access"] = "true"
        return {**FILE_IO, **{CATALOG_NAMES.get(key, key): value for key, value in found.items()}}


def is_in_s3(location: str) -> bool:
    return location.partition("://")[0].lower() in S3_SCHEMES and "://" in location


def known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone: use a name such as UTC or Europe/Berlin") from None
    return name


def quiet_hours_of(text: str) -> str:
    found = _HOURS.fullmatch(text.strip())
    if found is None or found.group(1, 2) == found.group(3, 4):
        raise ValueError(f"{text!r} are not quiet hours: write 22:00-07:00")
    return text.strip()


def strong_secret(secret: SecretStr) -> SecretStr:
    check_secret("it", secret)
    return secret


class ReceiverSettings(BaseModel, extra="forbid"):
    """Where messages go, and by which alerter."""

    kind: str = "apprise"
    url: SecretStr
    secret: Annotated[SecretStr, AfterValidator(strong_secret)] | None = None
    properties: Texts = {}

    def all_properties(self) -> dict[str, str]:
        secret = {"secret": self.secret.get_secret_value()} if self.secret else {}
        return {**self.properties, "url": self.url.get_secret_value(), **secret}


class RouteSettings(BaseModel, extra="forbid"):
    """Which alerts go to which receivers; what is not given matches every alert."""

    receivers: Words
    owners: Words = []
    queues: Words = []
    formats: Words = []
    severities: list[Literal["critical", "warning"]] = []


class AlertSettings(BaseModel, extra="forbid"):
    receivers: dict[str, ReceiverSettings] = setting(
        {}, "Where messages go: `[alerts.receivers.NAME]`. Without any, alerts are only listed."
    )
    routes: list[RouteSettings] = setting([], "Which alerts go to which receivers. Without any, all go to all.")
    reminder: Duration = setting(timedelta(days=1), "An open alert is sent again after this long.")
    quiet_hours: Annotated[str, AfterValidator(quiet_hours_of)] | None = setting(
        None, "Hours of the day in which only critical messages are sent, such as `22:00-07:00`."
    )
    time_zone: Annotated[str, AfterValidator(known_zone)] = setting("UTC", "Time zone of the quiet hours.")
    queue_wait: Duration = setting(timedelta(hours=1), "A queue is stuck if an operation is due for this long.")
    most_per_minute: int = setting(50, "Alerts per minute and receiver; one message counts the others.", ge=1)

    def rules(self) -> AlertRules:
        return AlertRules(
            receivers=tuple(sorted(self.receivers)), routes=tuple(route_of(one) for one in self.routes),
            quiet_hours=self.quiet(), reminder=self.reminder, most_per_minute=self.most_per_minute,
        )  # fmt: skip

    def limits(self) -> AlertLimits:
        return AlertLimits(queue_wait=self.queue_wait)

    def quiet(self) -> QuietHours | None:
        found = _HOURS.fullmatch(self.quiet_hours or "")
        if found is None:
            return None
        first, second, third, fourth = map(int, found.groups())
        return QuietHours(start=time(first, second), end=time(third, fourth), zone=ZoneInfo(self.time_zone))


def route_of(one: RouteSettings) -> Route:
    return Route(
        receivers=tuple(one.receivers), owners=frozenset(one.owners), queues=frozenset(one.queues),
        formats=frozenset(one.formats), severities=frozenset(Severity(word) for word in one.severities),
    )  # fmt: skip


def read_alerts(alerts: AlertSettings) -> AlertSettings:
    for name in alerts.receivers:
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a receiver may hold letters, digits and ._- only, at most 64")
    for number, route in enumerate(alerts.routes, 1):
        if not route.receivers:
            raise ValueError(f"route {number} names no receiver")
        if unknown := sorted(set(route.receivers) - set(alerts.receivers)):
            known = ", ".join(sorted(alerts.receivers)) or "none"
            raise ValueError(f"route {number} names {unknown[0]!r}, which is not a receiver; there are: {known}")
    return alerts


def known_algorithms(names: list[str]) -> list[str]:
    from lakehand.oidc import ALGORITHMS  # takes a tenth of a second

    if unknown := [name for name in names if name not in ALGORITHMS]:
        raise ValueError(
            f"{unknown[0]!r} is not accepted: it is unknown, or has no public key; use {', '.join(ALGORITHMS)}"
        )
    return names


class OidcSettings(BaseModel, extra="forbid"):
    issuer: str | None = setting(None, "URL of the issuer, as its tokens name it. Without it, no such token is valid.")
    audience: Words = setting([], "Audiences of this service: a token must be for one of them.")
    jwks_url: str | None = setting(None, "URL of the issuer's keys. Default: its configuration names it.")
    algorithms: Annotated[Words, AfterValidator(known_algorithms), Field(min_length=1)] = setting(
        ["RS256", "ES256"], "Algorithms of signatures that are accepted."
    )
    roles: dict[str, RoleName] = setting({}, "Roles here by value of the claim: `[oidc.roles]`.")
    roles_claim: str = setting("roles", "Claim with the caller's roles, or the path to it.", min_length=1)
    name_claim: str | None = setting(None, "Claim with the caller's name.", min_length=1)
    owner_claim: str | None = setting(
        None, "Claim with the owner whose tables the caller may touch. Default: those of all.", min_length=1
    )
    default_role: RoleName | None = setting(None, "Role of callers without any of `roles`. Default: no access.")
    ca_file: Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())] | None = setting(
        None, "Certificates of the CAs that the issuer's certificate may be signed by. Default: those of the system."
    )


def read_oidc(oidc: OidcSettings) -> OidcSettings:
    """Raises ValueError if nobody could ever sign in, or keys would be read from where anybody may exchange them."""
    if oidc.issuer is None:
        if oidc.model_fields_set - {"issuer"}:
            raise ValueError("issuer is missing: give the URL that is in the tokens' iss")
        return oidc
    from lakehand.oidc.keys import is_safe  # takes a tenth of a second

    for name, url in (("issuer", oidc.issuer), ("jwks_url", oidc.jwks_url)):
        if url is not None and not is_safe(url):
            raise ValueError(f"{name} must be a URL with https; http is only for this machine")
    if not oidc.audience:
        raise ValueError("audience is missing: give the audience that the issuer puts into tokens for this service")
    if not oidc.roles and oidc.default_role is None:
        raise ValueError("no role is given to anybody: write [oidc.roles], or set default_role")
    return oidc
