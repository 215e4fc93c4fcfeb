# SPDX-License-Identifier: Apache-2.0
"""Runs the demo: starts its processes, plays the scenario, prints the result, and always cleans up."""

import json
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType

from lakehand.client import LakehandClient
from lakehand.demo.console import DemoConsole
from lakehand.demo.lake import Lake, open_lake
from lakehand.demo.result import Promise, comparison, promises
from lakehand.demo.scenario import Scenario
from lakehand.demo.service import SHOWN, ServiceProcess, format_readers, open_engine
from lakehand.demo.tables import demo_tables
from lakehand.demo.writer import WriterProcess
from lakehand.domain.errors import LakehandError
from lakehand.engines.spark.jars import ensure_jars
from lakehand.engines.spark.java import java_home
from lakehand.output import data, join, print_error
from lakehand.spi import TableFormat

SUGGESTIONS = """
Next, with tables of your own:
  lakehand check /data                    their health, and what Lakehand would do; only reads
  lakehand maintain /data/trips --dry-run what it would do to one table; without --dry-run it does it once
  lakehand serve --warehouse /data        maintains them from now on
  lakehand demo --keep                    this demo again; everything keeps running, to try things out"""


def run_demo(*, keep: bool, wanted: Sequence[str] = (), storage: str = "disk") -> int:
    """Returns 0 if every promise was kept, 1 if not, 130 after Ctrl-C."""
    console = DemoConsole()
    home = Path(mkdtemp(prefix="lakehand-demo-")).resolve()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    code = 1
    try:
        with ExitStack() as parts:
            lake = open_lake(storage, home, parts)
            code = play(console, home, parts, lake, format_readers(wanted, lake.storage), keep=keep)
    except KeyboardInterrupt:
        code = 130 if code else code
        console.line("demo", "stopped")
    except LakehandError as problem:
        print_error(str(problem))
    finally:
        clean_up(console, home, code)
    return code


def interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def play(
    console: DemoConsole, home: Path, parts: ExitStack, lake: Lake, formats: Mapping[str, TableFormat], *, keep: bool
) -> int:
    console.line("demo", f"everything happens in {home}")
    if lake.s3:
        console.line(
            "demo", f"but the tables are in {lake.root}, a bucket of an S3 server (moto), {lake.s3['endpoint']}"
        )
    writer, url = start_processes(console, home, parts, lake, formats)
    tables = demo_tables(formats, url=url, lake=lake)
    scenario = Scenario(
        client=LakehandClient(url), writer=writer, tables=tables, formats=formats, lake=lake, console=console
    )
    code = play_scenario(scenario, console)
    if keep:
        stay(console, url, lake, tables[-1].name)
    else:
        console.show(SUGGESTIONS)
        console.line("demo", f"the dashboard was at {url}; lakehand demo --keep (make demo KEEP=1) keeps it up")
    return code


def start_processes(
    console: DemoConsole, home: Path, parts: ExitStack, lake: Lake, formats: Mapping[str, TableFormat]
) -> tuple[WriterProcess, str]:
    """The service, its Spark driver and the writer; all three start at the same time."""
    java = java_home()
    jars = ensure_jars(list(formats), lake.schemes, lake.databases, java=java, progress=Download(console))
    without = [name for name in SHOWN if name not in formats]
    service = ServiceProcess(home / "service", lake.root, without=without, settings=lake.service_settings)
    parts.callback(service.stop)
    conf = lake.writer_conf(list(formats))
    writer = WriterProcess(home=home / "writer", lake=conf, formats=list(formats), jars=jars, java=java)
    parts.callback(writer.stop)
    console.line("demo", f"starting the service, its one Spark driver, and a PySpark writer of {', '.join(formats)}")
    engine = open_engine(home / "service", lambda folder: lake.context(folder, list(formats)))
    parts.callback(engine.stop, timedelta(seconds=5))
    engine.warm()
    with console.waiting("starting the service"):
        url = service.url()
    console.line("demo", f"the service answers at {url}; open it in a browser to watch")
    return writer, url


def play_scenario(scenario: Scenario, console: DemoConsole) -> int:
    scenario.register_notified()
    with console.waiting("starting the PySpark writer"):
        ready = scenario.wait_for(scenario.pool.submit(scenario.writer.ready))
    console.line("writer", f"Spark {ready['ready']} is up")
    outcomes = scenario.play()
    console.show("")
    console.show(comparison(outcomes, console.console.width))
    console.show(data("Old files stay on storage for running readers, until a clean, an expiry or a vacuum.", "dim"))
    console.show("")
    return print_promises(console, promises(outcomes))


class Download:
    """Prints the progress of a download, in steps of a tenth."""

    def __init__(self, console: DemoConsole) -> None:
        self.console = console
        self.last = ("", -1)

    def __call__(self, name: str, done: int, total: int) -> None:
        tenth = (name, done * 10 // max(total, 1))
        if tenth != self.last:
            self.last = tenth
            self.console.line("demo", f"fetching {name}: {done >> 20} of {total >> 20} MB")


def print_promises(console: DemoConsole, made: Sequence[Promise]) -> int:
    """Returns 0 if every promise was kept, else 1."""
    for promise in made:
        word = data("kept  ", "green") if promise.is_kept else data("BROKEN", "red")
        console.show(join(word, f" {promise.text}"))
    kept = all(promise.is_kept for promise in made)
    console.line("demo", "every promise was kept" if kept else "a promise was broken")
    return 0 if kept else 1


def stay(console: DemoConsole, url: str, lake: Lake, name: str) -> None:
    exports = "".join(
        f"  export LAKEHAND_{key.upper()}='{json.dumps(value)}'\n" for key, value in lake.service_settings.items()
    )
    console.show(
        f"\nEverything keeps running until Ctrl-C. The dashboard: {url}\n"
        "Try in another terminal:\n"
        f"  export LAKEHAND_URL={url}\n"
        f"{exports}"
        f"  lakehand check {lake.root}\n"
        "  lakehand tables list\n"
        f"  lakehand explain {name}\n"
        "  lakehand operations list\n"
        "  lakehand operations show 1\n"
        "  lakehand operations logs 1\n"
        f"  curl -s {url}/metrics | grep lakehand\n"
        f"  curl -s {url}/api/v1/openapi.json"
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        console.line("demo", "stopping")


def clean_up(console: DemoConsole, home: Path, code: int) -> None:
    """Remove everything; keep the logs if the demo failed."""
    logs = sorted(path for path in home.rglob("*.log") if path.is_file())
    if code == 0 or not logs:
        shutil.rmtree(home, ignore_errors=True)
        return
    for part in home.iterdir():
        if part.is_dir() and not any(log.is_relative_to(part) for log in logs):
            shutil.rmtree(part, ignore_errors=True)
    console.line("demo", f"the logs are kept in {home}: " + ", ".join(str(log.relative_to(home)) for log in logs))
    sys.stdout.flush()
