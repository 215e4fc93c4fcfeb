# SPDX-License-Identifier: Apache-2.0
"""The whole demo: brings up its parts, tells the story, shows the result, and cleans up whatever happens."""

import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType

from lakehand.cli.client import Client
from lakehand.cli.demo.background import ServiceProcess, end, engine_of
from lakehand.cli.demo.result import Promise, comparison, promises
from lakehand.cli.demo.stage import Stage
from lakehand.cli.demo.story import Story
from lakehand.cli.demo.tables import DemoTable, demo_tables
from lakehand.cli.demo.writing import Writer
from lakehand.cli.problems import complain
from lakehand.domain.errors import LakehandError
from lakehand.engines.spark.jars import ensure_jars
from lakehand.engines.spark.java import java_home


def perform(*, keep: bool) -> int:
    """0: everything was as promised. 1: something was not. 130: someone stopped it."""
    stage = Stage()
    home = Path(mkdtemp(prefix="lakehand-demo-")).resolve()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    code = 1
    try:
        with ExitStack() as parts:
            code = play(stage, home, parts, keep=keep)
    except KeyboardInterrupt:
        code = 130 if code else code
        stage.line("demo", "stopped")
    except LakehandError as problem:
        complain(str(problem))
    finally:
        leave(stage, home, code)
    return code


def interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def play(stage: Stage, home: Path, parts: ExitStack, *, keep: bool) -> int:
    stage.line("demo", f"everything happens in {home}")
    java = java_home()
    jars = ensure_jars(["hudi"], java=java, progress=Download(stage))
    lake = home / "lake"
    lake.mkdir()
    service = ServiceProcess(home / "service", lake)
    parts.callback(service.stop)
    writer = Writer(home=home / "writer", jars=jars, java=java)
    parts.callback(writer.stop)
    stage.line("demo", "starting the service, its Spark driver, and a PySpark writer of Hudi 1.2.0")
    engine = engine_of(home / "service")
    parts.callback(end, engine)
    with stage.waiting("starting the service"):
        url = service.url()
    engine.warm()
    stage.line("demo", f"the service answers at {url}")
    client = Client(url)
    story = Story(client=client, writer=writer, tables=demo_tables(url, lake, home / "locks"), stage=stage)
    code = tell(story, stage)
    if keep:
        stay(stage, url)
    return code


def tell(story: Story, stage: Stage) -> int:
    story.register()
    with stage.waiting("starting the PySpark writer"):
        ready = story.meanwhile(story.pool.submit(story.writer.ready))
    stage.line("writer", f"Spark {ready['ready']} is up")
    for table in story.tables:
        story.write(table, table.history, "commit")
    before = story.pictures("before")
    story.resume()
    story.wait_for_first()
    for table in story.tables:
        story.write(table, table.later, "later commit")
    story.wait_for_all()
    after = story.pictures("after")
    stage.show("")
    stage.show(comparison(before, after, titles(story.tables)))
    stage.show("[dim]trips keeps what it was before its compaction until its writer cleans it; orders is cleaned.[/]\n")
    statuses = {table.name: [one["status"] for one in story.operations(table)] for table in story.tables}
    told = all(story.was_told(table) for table in story.tables)
    return judge(stage, promises(before, after, statuses, told))


def titles(tables: Sequence[DemoTable]) -> dict[str, str]:
    return {table.name: f"{table.name}\n{table.table_type.lower().replace('_', ' ')}" for table in tables}


def judge(stage: Stage, made: Sequence[Promise]) -> int:
    for promise in made:
        stage.show(f"{'[green]kept[/]  ' if promise.is_kept else '[red]BROKEN[/]'} {promise.text}")
    kept = all(promise.is_kept for promise in made)
    stage.line("demo", "everything is as promised" if kept else "something is not as promised")
    return 0 if kept else 1


def stay(stage: Stage, url: str) -> None:
    stage.show(
        f"\nStill up, until Ctrl-C. Try in another terminal:\n"
        f"  export LAKEHAND_URL={url}\n"
        "  lakehand tables list\n"
        "  lakehand explain orders\n"
        "  lakehand operations list\n"
        "  lakehand operations show 1\n"
        "  lakehand operations logs 1\n"
        f"  curl -s {url}/metrics | grep lakehand\n"
        f"  curl -s {url}/api/v1/openapi.json"
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        stage.line("demo", "ending")


def leave(stage: Stage, home: Path, code: int) -> None:
    """Nothing stays after a good end; after a bad one the logs do."""
    logs = sorted(path for path in home.rglob("*.log") if path.is_file())
    if code == 0 or not logs:
        shutil.rmtree(home, ignore_errors=True)
        return
    for part in home.iterdir():
        if part.is_dir() and not any(log.is_relative_to(part) for log in logs):
            shutil.rmtree(part, ignore_errors=True)
    stage.line("demo", f"the logs are kept in {home}: " + ", ".join(str(log.relative_to(home)) for log in logs))
    sys.stdout.flush()


class Download:
    """Tells how far a jar has come, in steps of a tenth."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.last = ("", -1)

    def __call__(self, name: str, done: int, total: int) -> None:
        tenth = (name, done * 10 // max(total, 1))
        if tenth != self.last:
            self.last = tenth
            self.stage.line("demo", f"fetching {name}: {done >> 20} of {total >> 20} MB")
