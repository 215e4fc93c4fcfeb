# SPDX-License-Identifier: Apache-2.0
"""The settings of traces and lineage."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, SecretStr

from lakehand.app.setting_types import Duration, setting


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
