# SPDX-License-Identifier: Apache-2.0
"""The ports of a real driver: on loopback, and closed to a real Spark client of another user without the secret."""

import json
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import pytest

from lakehand.engines.spark import SparkEngine, command
from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from lakehand.spi import EngineContext
from lakehand.testing import eventually
from tests.listeners import is_loopback, listeners_of, members_of

pytestmark = [pytest.mark.spark, pytest.mark.long]

NOBODY = 65534
STREAM_REQUEST, STREAM_FAILURE = 6, 8
PROGRAM = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
QUICK = ("-Dspark.rpc.askTimeout=20s", "-Dspark.rpc.lookupTimeout=20s", "-Dspark.rpc.numRetries=1")
REFUSED = "Expected SaslMessage"
ANSWERED = "Unsupported message RpcMessage("  # the driver has read it, and answers


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    yield from started(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def open_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkEngine]:
    """As drivers were before they asked for a secret."""
    without = {key: value for key, value in command.FIXED_LOCALLY.items() if key != "spark.authenticate"}
    monkeypatch.setattr(command, "FIXED_LOCALLY", without)
    yield from started(tmp_path)


def started(home: Path) -> Iterator[SparkEngine]:
    engine = SparkEngine()
    engine.open({"driver-memory": "1g", "master": "local[1]"}, EngineContext(home=home))
    engine.warm()
    try:
        eventually(lambda: engine.heartbeat_token() is not None, 180)
        yield engine
    finally:
        engine.stop(timedelta(0))


def session_of(engine: SparkEngine) -> int:
    return int(engine.spool.driver_state()["jvm"])


def spark_ports(engine: SparkEngine) -> dict[str, int]:
    return ports_of(session_of(engine))


@lru_cache
def ports_of(jvm: int) -> dict[str, int]:
    """The ports of Spark itself, by what serves there. The JVM's third one is Py4J's, which has a token of its own."""
    ports = [port for (_, port), pid in listeners_of(jvm).items() if pid == jvm]
    answers = {port: stream_from(port, "/files/none") for port in ports}
    named = {"driver" if b"was not found" in said else "blocks": port for port, said in answers.items() if said}
    assert set(named) == {"driver", "blocks"}, answers
    return named


def stream_from(port: int, name: str) -> bytes:
    """What Spark's transport answers to a request for a file: this part of its protocol asks for no secret."""
    text = name.encode()
    body = struct.pack(">bi", STREAM_REQUEST, len(text)) + text
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">q", 8 + len(body)) + body)
        try:
            return connection.recv(65536)
        except OSError:
            return b""


def intrude(port: int) -> str:
    """An executor that another user starts and that asks the driver for work: what it says in the end."""
    java, jars = java_home().program, spark_home() / "jars"
    address = f"spark://HeartbeatReceiver@127.0.0.1:{port}"
    words = ["--driver-url", address, "--executor-id", "7", "--hostname", "127.0.0.1", "--cores", "1", "--app-id", "x"]
    ended = subprocess.run(
        [java, "-Xmx256m", *QUICK, "-cp", f"{jars}/*", PROGRAM, *words],
        cwd="/", user=NOBODY, group=NOBODY, extra_groups=[], env={"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    return ended.stdout + ended.stderr


def needs_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    seen = subprocess.run(["ls", str(spark_home() / "jars")], user=NOBODY, capture_output=True, check=False)
    if seen.returncode != 0:
        pytest.skip("another user cannot read this pyspark, so that it has no client to try with")


def test_without_a_secret_another_user_is_answered(open_driver: SparkEngine) -> None:
    """What the next test rests on: this client does reach a driver that lets it."""
    needs_another_user()

    assert ANSWERED in intrude(spark_ports(open_driver)["driver"])


def test_another_user_without_the_secret_is_refused(driver: SparkEngine) -> None:
    needs_another_user()

    for port in spark_ports(driver).values():
        said = intrude(port)
        assert REFUSED in said
        assert ANSWERED not in said
    assert driver.heartbeat_token() is not None


@pytest.mark.parametrize(
    "name", ["/files/driver.py", "/files/spark.properties", "/jars/none.jar", "/../spark.properties", "/classes/none"]
)
def test_the_file_server_that_asks_for_no_secret_has_no_file(driver: SparkEngine, name: str) -> None:
    for port in spark_ports(driver).values():
        said = stream_from(port, name)
        assert said[8] == STREAM_FAILURE


def test_everything_that_a_driver_listens_on_is_loopback(driver: SparkEngine) -> None:
    found = listeners_of(session_of(driver))

    assert len(found) >= 3
    assert [address for address, _ in found if not is_loopback(address)] == []


def test_the_secret_is_in_no_file_no_environment_and_on_no_command_line(driver: SparkEngine) -> None:
    members = members_of(session_of(driver))
    assert any(b"java" in content_of(Path(f"/proc/{pid}/cmdline")) for pid in members)
    for pid in members:
        visible = content_of(Path(f"/proc/{pid}/cmdline")) + content_of(Path(f"/proc/{pid}/environ"))
        assert b"authenticate.secret" not in visible
        assert b"_SPARK_AUTH_SECRET" not in visible
    files = [Path(folder, name) for folder, _, names in os.walk(driver.home) for name in names]
    written = {file: content_of(file) for file in files}
    assert written[driver.home / "spark.properties"]
    assert [file for file, content in written.items() if b"authenticate.secret" in content] == []


def content_of(file: Path) -> bytes:
    """Nothing of a pipe, a large file, a draft that was renamed, or a short-lived process that has ended."""
    try:
        return file.read_bytes() if file.is_file() and file.stat().st_size < 1 << 20 else b""
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_malformed_work_item_does_not_end_a_real_driver(driver: SparkEngine) -> None:
    boot = driver.spool.driver_state()["boot"]
    item = {"handle": "bad", "job": "probe", "heartbeat_token": driver.heartbeat_token(), "time_to_live": "abc"}
    (driver.spool.inbox / "bad.json").write_text(json.dumps(item))
    os.mkfifo(driver.spool.inbox / "pipe.json")
    os.mkfifo(driver.spool.lease / "pipe.json")

    eventually(lambda: not driver.spool.has_work(), 60)
    before = driver.spool.driver_state()["beat"]
    eventually(lambda: driver.spool.driver_state()["beat"] > before, 60)

    assert driver.spool.driver_state()["boot"] == boot
    assert "its time to live is not a number" in (driver.spool.done / "bad.json").read_text()
    assert "the work item bad is refused" in driver.process.log.read_text()
