# SPDX-License-Identifier: Apache-2.0
"""What drivers need of this machine: Spark, Java and the jars of the formats that are on."""

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from lakehand.engines.spark.command import FORMATS, Command, driver_command
from lakehand.engines.spark.settings import SparkSettings
from lakehand.spi.engines import EngineContext

if TYPE_CHECKING:
    from lakehand.engines.spark.java import Java


class Installation:
    """Drivers may start at the same time: the jars are verified for the first of them, and remembered."""

    def __init__(self, context: EngineContext, home: Path) -> None:
        self._context = context
        self._home = home
        self._verifying = Lock()

    def command(self, settings: SparkSettings, *, home: Path, spool: Path, is_once: bool = False) -> Command:
        """Finds Java, and downloads jars that are missing: it may take long."""
        # Imported here, because both are also programs (`python -m`) and must not be loaded with the package.
        from lakehand.engines.spark.jars import default_cache, spark_home
        from lakehand.engines.spark.java import java_home
        from lakehand.engines.spark.packages import with_local_packages

        context, java = self._context, java_home()
        return driver_command(
            with_local_packages(settings, cache=context.jars or default_cache(), java=java),
            home=home,
            spool=spool,
            spark_home=spark_home(),
            java=java,
            formats=self._formats,
            jars=self._jars(settings, java),
            catalogs=context.catalogs,
            storage=context.storage,
            schemes=context.storage_schemes,
            is_once=is_once,
        )

    @property
    def _formats(self) -> list[str]:
        return [name for name in self._context.formats if name in FORMATS]

    def _jars(self, settings: SparkSettings, java: "Java") -> list[Path]:
        from lakehand.engines.spark.jars import RECORD, JarSums, databases_of, ensure_jars, shared_record

        if not self._formats:
            return []
        with self._verifying:
            sums = JarSums(shared_record() or self._home / RECORD)
            schemes, cache = self._context.storage_schemes, self._context.jars
            databases = databases_of(self._context.catalogs, settings.conf)
            return ensure_jars(self._formats, schemes, databases, cache=cache, java=java, sums=sums)
