# SPDX-License-Identifier: Apache-2.0
"""The whole demo: brings up its parts, tells the story, shows the result, and cleans up whatever happens."""

import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType

from lakehand.cli.client import Client
from lakehand.cli.demo.background import ServiceProcess, end, engine_of
from lakehand.cli.demo.cast import demo_tables
from lakehand.cli.demo.ending import judge, leave, stay, suggest
from lakehand.cli.demo.formats import left_out, readers
from lakehand.cli.demo.result import comparison, promises
from lakehand.cli.demo.stage import Stage
from lakehand.cli.demo.story import Story
from lakehand.cli.demo.writing import Writer
from lakehand.cli.problems import complain
from lakehand.cli.screen import data
from lakehand.domain.errors import LakehandError
from lakehand.engines.spark.jars import ensure_jars
from lakehand.engines.spark.java import java_home
from lakehand.spi import TableFormat


def perform(*, keep: bool, wanted: Sequence[str] = ()) -> int:
    """0: everything was as promised. 1: something was not. 130: someone stopped it."""
    formats = readers(wanted)
    stage = Stage()
    home = Path(mkdtemp(prefix="lakehand-demo-")).resolve()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    code = 1
    try:
        with ExitStack() as parts:
            code = play(stage, home, parts, formats, keep=keep)
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


def play(stage: Stage, home: Path, parts: ExitStack, formats: Mapping[str, TableFormat], *, keep: bool) -> int:
    stage.line("demo", f"everything happens in {home}")
    lake = home / "lake"
    lake.mkdir()
    writer, url = bring_up(stage, home, parts, formats)
    tables = demo_tables(formats, url=url, lake=lake, locks=lake / "locks")
    code = tell(Story(client=Client(url), writer=writer, tables=tables, formats=formats, stage=stage), stage)
    if keep:
        stay(stage, url, lake, tables[-1].name)
    else:
        suggest(stage)
    return code


def bring_up(stage: Stage, home: Path, parts: ExitStack, formats: Mapping[str, TableFormat]) -> tuple[Writer, str]:
    """Three processes at once: the service, its driver, and the writer. In the end they are ended."""
    java = java_home()
    jars = ensure_jars(list(formats), java=java, progress=Download(stage))
    service = ServiceProcess(home / "service", home / "lake", without=left_out(formats))
    parts.callback(service.stop)
    writer = Writer(home=home / "writer", lake=home / "lake", formats=list(formats), jars=jars, java=java)
    parts.callback(writer.stop)
    stage.line("demo", f"starting the service, its one Spark driver, and a PySpark writer of {', '.join(formats)}")
    engine = engine_of(home / "service", list(formats))
    parts.callback(end, engine)
    with stage.waiting("starting the service"):
        url = service.url()
    engine.warm()
    stage.line("demo", f"the service answers at {url}")
    return writer, url


def tell(story: Story, stage: Stage) -> int:
    story.announce()
    with stage.waiting("starting the PySpark writer"):
        ready = story.meanwhile(story.pool.submit(story.writer.ready))
    stage.line("writer", f"Spark {ready['ready']} is up")
    story.damage()
    before = story.pictures("before")
    story.let_work()
    story.wait_for_first()
    story.go_on()
    story.wait_for_all()
    after = story.pictures("after")
    outcomes = story.outcomes(before, after)
    stage.show("")
    stage.show(comparison(outcomes, stage.console.width))
    kept = "Old files stay on storage, for readers that have begun, until a clean, an expiry or a vacuum."
    stage.show(data(kept, "dim"))
    stage.show("")
    return judge(stage, promises(outcomes))


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
