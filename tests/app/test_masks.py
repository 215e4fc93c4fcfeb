# SPDX-License-Identifier: Apache-2.0
"""What libraries say of the settings that they were given reaches no table, event or log with a secret in it."""

import io
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lakehand.app import wiring
from lakehand.app.settings import Settings, load
from lakehand.app.wiring import Service
from lakehand.core.plugins.proxies import EngineProxy, FormatProxy
from lakehand.domain.masks import Masks
from lakehand.domain.operations import Handle
from lakehand.domain.tables import Catalog, Format, TableReference
from lakehand.observe import logs
from lakehand.spi import EngineHealth, EngineState, EngineStatus
from lakehand.store import migrate
from tests.rest.parts import Listed, LoggedEngine

SECRET = "Qx91-kkPP"
MASKS = Masks.of({"credential": f"the-client:{SECRET}"})
SETTINGS = """
[catalogs.lake]
type = "rest"
[catalogs.lake.properties]
uri = "{uri}"
credential = "the-client-id:s3cr3t-of-client"
"oauth2-server-uri" = "{uri}/v1/oauth/tokens"
"header.Authorization" = "Bearer b3ar3r-of-header"
"header.X-Tenant" = "tenant-of-header-5"

[storage.s3]
access_key_id = "AKIA-OF-STORAGE"
secret_access_key = "s3cr3t/of+storage"

[spark]
"spark.hadoop.fs.s3a.secret.key" = "s3cr3t-of-spark"

[alerts.receivers.chat]
url = "slack://T0K3N-OF-CHAT/B0-OF-CHAT-2"

[telemetry]
otlp_endpoint = "http://127.0.0.1:4318"
[telemetry.otlp_headers]
authorization = "t0k3n-of-telemetry"
"""
SECRETS = [
    "s3cr3t-of-client", "the-client-id", "b3ar3r-of-header", "tenant-of-header-5", "AKIA-OF-STORAGE",
    "s3cr3t/of+storage", "s3cr3t-of-spark", "T0K3N-OF-CHAT", "B0-OF-CHAT-2", "t0k3n-of-telemetry",
]  # fmt: skip


class Echo(BaseHTTPRequestHandler):
    """A catalog that repeats in its refusals what it was sent, as proxies in front of catalogs do."""

    def refuse(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        sent = "; ".join(f"{name}={value}" for name, value in self.headers.items())
        error = {"message": f"not accepted: {sent}; {body}", "type": "BadRequestException", "code": 400}
        data = json.dumps({"error": error}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = refuse  # noqa: N815 - the names of the standard library

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


@contextmanager
def echoing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def settings_of(home: Path, uri: str, **flags: Any) -> Settings:
    home.mkdir(mode=0o700)
    config = home / "lakehand.toml"
    config.write_text(SETTINGS.replace("{uri}", uri))
    config.chmod(0o600)
    return load({"home": home, **flags}, config)


@pytest.fixture
def service(tmp_path: Path, sqlite_url: str) -> Iterator[Service]:
    with echoing() as uri:
        settings = settings_of(tmp_path / "home", uri, database=sqlite_url)
        migrate.upgrade(settings.database_url)
        built = wiring.build(settings)
        yield built
        built.stop()


@contextmanager
def logged(masks: Masks, format: str) -> Iterator[io.StringIO]:
    root, out = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    logs.set_up("info", format, out, masks)
    try:
        yield out
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def test_no_secret_of_a_catalog_is_in_its_report_the_database_or_the_log(service: Service, tmp_path: Path) -> None:
    lake = service.catalogs.get("lake").catalog
    with logged(service.settings.masks(), "json") as log:
        service.catalogs.sync_and_log("lake")
        report = service.catalogs.last["lake"]
        reader = service.plugins.format(lake.format)
        with pytest.raises(OSError, match="not accepted") as caught:
            reader.probe(TableReference(location="/lake/t", catalog=lake, db_name="db", table_name="t"))
        logging.getLogger("lakehand").warning("it failed", exc_info=caught.value, extra={"detail": {"said": SECRETS}})
    [listed] = [one for one in service.plugin_reports() if (one.kind, one.name) == ("table-format", "iceberg")]
    database = b"".join(file.read_bytes() for file in tmp_path.glob("lakehand.db*")).decode("latin-1")

    assert "not accepted" in report.problem
    assert "not accepted" in database
    assert "it failed" in log.getvalue()
    for text in (
        report.problem,
        repr(caught.value),
        repr(caught.value.__cause__),
        str(listed),
        database,
        log.getvalue(),
    ):
        assert [secret for secret in SECRETS if secret in text] == []


def test_all_that_is_secret_in_the_settings_is_hidden_in_texts(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home", "http://lake:8181", database="postgresql://ann:pw-of-database@host/db")

    masks = settings.masks()

    secrets = [*SECRETS, "pw-of-database"]
    assert [secret for secret in secrets if secret in masks.hide(f"an error about {secret} in a text")] == []
    kept = "http://lake:8181 and 127.0.0.1 of the client on slack, with rest, true and spark"
    assert masks.hide(kept) == kept


class TalkativeEngine(LoggedEngine):
    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        result: dict[str, Any] = {"causes": [{"message": f"cannot sign in with {SECRET}"}], "files": 3}
        failed = EngineStatus(state=EngineState.FAILED, message=f"the-client:{SECRET} is wrong", result=result)
        return dict.fromkeys(handles, failed)

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        return f"connecting with {SECRET}\n"

    def health(self) -> EngineHealth:
        return EngineHealth(is_up=False, detail=f"refused {SECRET}")

    def cancel(self, handle: Handle) -> None:
        raise ValueError(f"cannot cancel with {SECRET}")


def test_no_secret_is_in_what_an_engine_says() -> None:
    engine = EngineProxy(TalkativeEngine())
    engine.breaker.masks = MASKS
    handle = Handle("h-1")

    [status] = engine.status([handle]).values()
    with pytest.raises(Exception, match="cannot cancel") as caught:
        engine.cancel(handle)

    texts = (status.message, str(status.result), engine.logs(handle), engine.health().detail, str(caught.value))
    assert [text for text in (*texts, repr(caught.value.__cause__), engine.breaker.last_error) if SECRET in text] == []
    assert status.result["files"] == 3
    assert len(engine.logs(handle)) == len(f"connecting with {SECRET}\n")


class TalkativeFormat(Listed):
    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        yield TableReference(location="", catalog=catalog, table_name="t", problem=f"it cannot be read with {SECRET}")
        raise OSError(f"cannot reach {SECRET}")


def test_no_secret_is_in_the_list_of_a_catalog() -> None:
    reader = FormatProxy(TalkativeFormat())
    reader.breaker.masks = MASKS
    listing = reader.tables(Catalog(name="lake", format=Format("listed"), type="rest"))

    assert next(listing).problem == "it cannot be read with ***"
    with pytest.raises(OSError, match=r"cannot reach \*\*\*"):
        next(listing)
