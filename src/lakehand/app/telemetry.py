# SPDX-License-Identifier: Apache-2.0
"""Builds what tells other tools what ran: traces and lineage. Both are off unless their address is set."""

from collections.abc import Iterator

import lakehand
from lakehand.app.setting_groups import TelemetrySettings
from lakehand.core.loops.telemetry import RunSink, Telemetry
from lakehand.core.ports import Store
from lakehand.domain.errors import Invalid

HOW = "install it with: pip install 'lakehand[telemetry]'"


def build_telemetry(settings: TelemetrySettings, store: Store, instance: str) -> Telemetry:
    return Telemetry(store, list(sinks(settings, store, instance)))


def sinks(settings: TelemetrySettings, store: Store, instance: str) -> Iterator[RunSink]:
    """The libraries are imported only where they are wanted."""
    timeout = settings.timeout.total_seconds()
    if settings.otlp_endpoint:
        try:
            from lakehand.observe.traces import TraceSink
        except ImportError as error:
            raise Invalid(f"telemetry.otlp_endpoint is set, but OpenTelemetry is missing ({error}): {HOW}") from error
        about = {"service.version": lakehand.__version__, "service.instance.id": instance}
        headers = {name: secret.get_secret_value() for name, secret in settings.otlp_headers.items()}
        yield TraceSink(settings.otlp_endpoint, headers=headers, timeout=timeout, about=about, now=store.clock.estimate)
    if settings.openlineage_url:
        try:
            from lakehand.observe.lineage import LineageSink
        except ImportError as error:
            raise Invalid(f"telemetry.openlineage_url is set, but OpenLineage is missing ({error}): {HOW}") from error
        key = settings.openlineage_api_key.get_secret_value() if settings.openlineage_api_key else ""
        yield LineageSink(
            settings.openlineage_url, namespace=settings.namespace, api_key=key, timeout=timeout,
            now=store.clock.estimate,
        )  # fmt: skip
