# SPDX-License-Identifier: Apache-2.0
"""The classes of Spark and of all formats, archived by Java once (class data sharing) and then mapped by each driver.

A driver loads and verifies twenty thousand classes before it does anything: with the archive it needs half of the
processor time until its first job, and the tests start dozens of drivers. Java ignores an archive that does not fit
the class path, so programs with other jars run as before. Also a program: it loads the classes and leaves the archive.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lakehand.domain.errors import LakehandError
from lakehand.engines.spark.jars import default_cache, jars_of, spark_home
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.known_jars import FORMATS
from tests.jars import local_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = 13  # the first Java that archives what one run has loaded
TIMEOUT = 300.0  # seconds to make it


def use_archive(folder: Path) -> bool:
    """Let the Java programs that are started from now on use the archive; False while another process makes it."""
    file = archive_in(folder)
    if file is None:
        return True
    with file.with_suffix(".lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if not file.exists():
            make(file)
    if file.stat().st_size:
        # An archive fits one class path: services take the jars from where it found them, not from their homes.
        os.environ["LAKEHAND_JARS"] = str(default_cache())
        # Java says on standard output, where others read an answer, that an archive does not fit.
        os.environ["JAVA_TOOL_OPTIONS"] += f" -XX:SharedArchiveFile={file} -Xlog:disable"
    return True


def archived_class_path() -> dict[str, str]:
    """For engines without formats: the archive fits a class path that begins as its own."""
    return {"conf.spark.driver.extraClassPath": os.pathsep.join(map(str, local_jars(list(FORMATS))))}


def archive_in(folder: Path) -> Path | None:
    """Named after what it depends on. None: this Java makes none, for want of its own, or cannot be given the path."""
    try:
        java = java_home()
    except LakehandError:
        return None
    if java.version < OLDEST or not (java.home / "lib" / "server" / "classes.jsa").exists() or " " in str(folder):
        return None
    return folder / f"{key_of(java)}.jsa"


def key_of(java: Java) -> str:
    release = java.home / "release"
    parts = [str(java.home), release.read_text(errors="replace") if release.exists() else str(java.version)]
    parts += [str(spark_home()), *(jar.sha256 for jar in jars_of(FORMATS)), Path(__file__).read_text(encoding="utf-8")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def make(file: Path) -> None:
    """An empty file if it fails: nobody tries again."""
    for old in file.parent.glob("*.jsa"):
        old.unlink()
    draft = file.with_suffix(".new")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    subprocess.run(
        [sys.executable, "-m", "tests.kit.class_archive", str(draft)],
        cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    draft.replace(file) if draft.exists() else file.touch()


def main(draft: Path) -> None:
    """A session with the class path of a driver works a little with a table of each format, and ends."""
    from tests.spark_session import start_session

    leave = f"-XX:ArchiveClassesAtExit={draft} -Xlog:disable"
    session = start_session(*FORMATS, **{"spark.driver.extraJavaOptions": leave})
    gateway: Any = session.sparkContext._gateway
    with TemporaryDirectory(prefix="lakehand-tests-classes-") as folder:
        work_with_tables(session, Path(folder))
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # its sign to end
    gateway.proc.wait()


def work_with_tables(session: "SparkSession", folder: Path) -> None:
    from tests import delta_tables, hudi_tables, iceberg_tables
    from tests.paimon_tables import Lake

    hudi, iceberg, delta = folder / "hudi", folder / "iceberg", folder / "delta"
    hudi_tables.make_table(session, hudi, commits=2)
    session.sql(f"CALL run_compaction(op => 'scheduleandexecute', path => '{hudi}')").collect()
    warehouse = iceberg_tables.open_warehouse(session, folder)
    warehouse.create(iceberg)
    warehouse.append(iceberg, files=6)
    warehouse.sql(f"CALL {warehouse.catalog}.system.rewrite_data_files(table => '`iceberg`')")
    delta_tables.make_table(session, delta, commits=2, files=3)
    session.sql(f"OPTIMIZE {delta_tables.quoted(delta)}").collect()
    lake = Lake(session, folder)
    lake.create("paimon")
    lake.append("paimon", 0, 10, files=6)
    lake.sql("CALL lake.sys.compact(table => 'shop.paimon')")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
