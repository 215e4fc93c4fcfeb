# SPDX-License-Identifier: Apache-2.0
"""The spark-submit command of the warm driver, its environment and its properties, from the settings."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehand.engines.spark.settings import SparkSettings
from lakehand.spi import Catalog

if TYPE_CHECKING:
    from lakehand.engines.spark.java import Java

PROGRAM = Path(__file__).parents[2] / "jobs" / "driver.py"
SECRETS = "LAKEHAND_"  # the service's settings, tokens among them, stay out of the driver's environment


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatConf:
    """What a format needs in the one Spark application that serves all formats."""

    extension: str = ""
    session_catalog: str = ""  # for spark_catalog; the last format of the list wins
    catalog: str = ""  # the class of a named catalog: [catalogs.NAME] of the settings
    settings: Mapping[str, str]


# The order of the extensions (Iceberg's must follow Paimon's, or CALL fails) and of spark_catalog (the last wins).
FORMATS: Mapping[str, FormatConf] = {
    "paimon": FormatConf(
        extension="org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        catalog="org.apache.paimon.spark.SparkCatalog",
        settings={},
    ),
    "hudi": FormatConf(
        extension="org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        session_catalog="org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        settings={
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        },
    ),
    "delta": FormatConf(
        extension="io.delta.sql.DeltaSparkSessionExtension",
        session_catalog="org.apache.spark.sql.delta.catalog.DeltaCatalog",
        settings={
            # Without these, a VACUUM of a small table starts task sets of 10 000 tasks.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    ),
    "iceberg": FormatConf(
        extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog="org.apache.iceberg.spark.SparkCatalog",
        settings={},
    ),
    "lance": FormatConf(settings={}),
}

JAVA_OPTIONS = (
    "-XX:+ExitOnOutOfMemoryError",
    # Hudi measures objects with JOL, which else starts further JVMs to attach to this one, and estimates without them.
    "-Djol.skipDynamicAttach=true",
    "-Djol.skipHotspotSAAttach=true",
)
# Lists that user settings extend instead of replacing.
LISTS = {
    "spark.sql.extensions": ",",
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
}
# The driver depends on these: user settings cannot change them.
FIXED = {"spark.submit.deployMode": "client", "spark.scheduler.mode": "FAIR"}
# With a local master only the driver itself uses its ports. Spark generates a secret at each start and keeps it in
# memory: it is in no file, command line or environment.
LOOPBACK = "127.0.0.1"
FIXED_LOCALLY = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.authenticate": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    arguments: Sequence[str]
    environment: Mapping[str, str]
    properties: Mapping[str, str]
    properties_file: Path


def driver_command(
    settings: SparkSettings,
    *,
    home: Path,
    spool: Path,
    spark_home: Path,
    java: "Java",
    formats: Sequence[str] = (),
    jars: Sequence[Path] = (),
    catalogs: Sequence[Catalog] = (),
) -> Command:
    file = home / "spark.properties"
    program = [str(PROGRAM), "--spool", str(spool), *program_arguments(settings)]
    return Command(
        arguments=[str(spark_home / "bin" / "spark-submit"), "--properties-file", str(file), *program],
        environment=driver_environment(os.environ, spark_home, java, is_local=settings.is_local),
        properties=driver_properties(settings, home=home, java=java, formats=formats, jars=jars)
        | catalog_properties(catalogs),
        properties_file=file,
    )


def program_arguments(settings: SparkSettings) -> list[str]:
    seconds = {
        "--idle-timeout": settings.idle_timeout,
        "--max-age": settings.max_age,
        "--lease-grace": settings.lease_grace,
    }
    timed = [word for key, value in seconds.items() for word in (key, f"{value.total_seconds():g}")]
    return ["--threads", str(settings.threads), "--max-rss-mb", str(settings.max_rss_mb), *timed]


def driver_environment(
    inherited: Mapping[str, str], spark_home: Path, java: "Java", *, is_local: bool
) -> dict[str, str]:
    kept = {key: value for key, value in inherited.items() if not key.startswith(SECRETS)}
    if is_local:
        kept["SPARK_LOCAL_IP"] = LOOPBACK  # the UI binds to it, if it is switched on
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PIN_THREAD": "true"}
    return {**kept, **python, "SPARK_HOME": str(spark_home), "JAVA_HOME": str(java.home), "PYTHONUNBUFFERED": "1"}


def driver_properties(
    settings: SparkSettings, *, home: Path, java: "Java", formats: Sequence[str], jars: Sequence[Path]
) -> dict[str, str]:
    """Ours, then those of the formats, then the user's, which win."""
    properties = {
        "spark.app.name": "lakehand",
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join([*JAVA_OPTIONS, *java.options]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "500",
        "spark.ui.retainedStages": "500",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    properties |= format_properties(formats)
    if jars:
        # In local mode spark.jars would copy every jar at every start.
        key = "spark.driver.extraClassPath" if settings.is_local else "spark.jars"
        properties[key] = LISTS[key].join(str(jar) for jar in jars)
    return {**merged(properties, settings.conf), **FIXED, **(FIXED_LOCALLY if settings.is_local else {})}


def format_properties(formats: Sequence[str]) -> dict[str, str]:
    wanted = [conf for name, conf in FORMATS.items() if name in formats]
    properties = {key: value for conf in wanted for key, value in conf.settings.items()}
    if extensions := [conf.extension for conf in wanted if conf.extension]:
        properties["spark.sql.extensions"] = ",".join(extensions)
    if catalogs := [conf.session_catalog for conf in wanted if conf.session_catalog]:
        properties["spark.sql.catalog.spark_catalog"] = catalogs[-1]
    return properties


def catalog_properties(catalogs: Sequence[Catalog]) -> dict[str, str]:
    """The catalogs of the settings, under their own names, for every session of the driver."""
    properties: dict[str, str] = {}
    for one in catalogs:
        conf = FORMATS.get(one.format)
        if conf and conf.catalog:
            prefix = f"spark.sql.catalog.{one.name}"
            properties |= {prefix: conf.catalog, **{f"{prefix}.{key}": value for key, value in one.engine_properties}}
    return properties


def merged(ours: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    result = {**ours, **user}
    for key, separator in LISTS.items():
        if key in ours and key in user:
            result[key] = separator.join([ours[key], user[key]])
    return result


def as_properties_file(properties: Mapping[str, str]) -> str:
    """Java's notation. A private file, because values may be secret and command lines are public."""
    return "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in sorted(properties.items()))


def escaped(text: str) -> str:
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"}
    inside = "".join(special.get(character, character) for character in text)
    return "\\" + inside if inside.startswith(" ") else inside
