# SPDX-License-Identifier: Apache-2.0
"""The spark-submit command of a driver, its environment and its properties, from the settings.

Properties are those of formats, catalogs and object stores, and a person's own, with the pools of jobs.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.settings import SparkSettings
from lakehand.spi import Catalog
from lakehand.storage.object_stores import S3Options, buckets_in, s3_options

if TYPE_CHECKING:
    from lakehand.engines.spark.java import Java

JOBS = Path(__file__).parents[2] / "jobs"
PROGRAM = JOBS / "driver.py"
SECRETS = "LAKEHAND_"  # the service's settings, tokens among them, stay out of the driver's environment
HADOOP_S3 = "spark.hadoop.fs.s3a."
LANCE_S3 = "spark.lakehand.s3."  # for jobs that open tables outside of the JVM
S3A = "org.apache.hadoop.fs.s3a"
# As pyarrow looks for credentials: environment, profile, role of the container or of the machine.
ANY_CREDENTIALS = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
S3_ALWAYS = {
    "spark.hadoop.fs.s3.impl": f"{S3A}.S3AFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.s3.impl": f"{S3A}.S3A",
    f"{HADOOP_S3}connection.establish.timeout": "10000",
    f"{HADOOP_S3}connection.timeout": "60000",
    f"{HADOOP_S3}attempts.maximum": "8",  # the SDK's own, with back-off
    f"{HADOOP_S3}retry.throttle.limit": "20",
    # Hudi never closes some streams, each of which keeps a connection: the driver leaves before these are used up.
    f"{HADOOP_S3}connection.maximum": "2000",
    f"{HADOOP_S3}directory.marker.retention": "keep",  # else every write lists and deletes markers of the folders above
}
POOLS_FILE = "spark.scheduler.allocation.file"
DEFAULT_POOL = "default"
FAIR_POOL = {"schedulingMode": "FAIR", "weight": "1", "minShare": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatConf:
    """What a format needs in the one Spark application that serves all formats."""

    extension: str = ""
    session_catalog: str = ""  # for spark_catalog; the last format of the list wins
    catalog: str = ""  # the class of a named catalog: [catalogs.NAME] of the settings
    type_key: str = ""  # what the format calls the type of a catalog, if not "type"
    settings: Mapping[str, str]


# The order of the extensions (Iceberg's must follow Paimon's, or CALL fails) and of spark_catalog (the last wins).
FORMATS: Mapping[str, FormatConf] = {
    "paimon": FormatConf(
        extension="org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        catalog="org.apache.paimon.spark.SparkCatalog",
        type_key="metastore",
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
LOG_STORE = "spark.delta.logStore.{}.impl"  # of Delta, by scheme
JARS, PACKAGES, CLASS_PATH = "spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"
# Lists that user settings extend instead of replacing.
LISTS = {
    "spark.sql.extensions": ",",
    JARS: ",",
    CLASS_PATH: os.pathsep,
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
    storage: Mapping[str, str] | None = None,
    schemes: Sequence[str] = (),
    is_once: bool = False,
) -> Command:
    """``is_once``: an application for the one work in the spool, in place of a warm driver."""
    file = home / "spark.properties"
    program = [str(PROGRAM), "--spool", str(spool), *program_arguments(settings), *(["--once"] if is_once else [])]
    return Command(
        arguments=[str(spark_home / "bin" / "spark-submit"), "--properties-file", str(file), *program],
        environment=driver_environment(os.environ, spark_home, java, settings),
        properties=storage_properties(storage or {}, schemes)
        | driver_properties(settings, home=home, java=java, formats=formats, jars=jars)
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
    bounds = ["--threads", str(settings.threads), "--max-rss-mb", str(settings.max_rss_mb)]
    return [*bounds, "--code", job_code(), *timed]


def driver_environment(
    inherited: Mapping[str, str], spark_home: Path, java: "Java", settings: SparkSettings
) -> dict[str, str]:
    """PYSPARK_PYTHON is what executors run. With a local master they are the driver."""
    kept = {key: value for key, value in inherited.items() if not key.startswith(SECRETS)}
    if settings.is_on_loopback:
        kept["SPARK_LOCAL_IP"] = LOOPBACK  # the UI binds to it, if it is switched on
    elsewhere = "" if settings.is_local else settings.executor_python
    python = {"PYSPARK_PYTHON": elsewhere or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    fixed = {"SPARK_HOME": str(spark_home), "JAVA_HOME": str(java.home), "PYTHONUNBUFFERED": "1"}
    return {**kept, **python, **fixed, "PYSPARK_PIN_THREAD": "true"}


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
        "spark.pyspark.driver.python": sys.executable,  # also where another one is named for executors
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        **address_properties(settings),
    }
    properties |= format_properties(formats)
    if log_store := settings.conf.get(LOG_STORE.format("s3a")):
        properties[LOG_STORE.format("s3")] = log_store  # one storage, two spellings
    is_fetching = bool(settings.conf.get(PACKAGES))
    user = beside_ours(settings.conf) if settings.is_local and not is_fetching else settings.conf
    if jars:
        key = CLASS_PATH if settings.is_local and not fetches_jars(user) else JARS
        properties[key] = LISTS[key].join(str(jar) for jar in jars)
    user = {**user, **complete_pools(settings.conf, home)}
    return {**merged(properties, user), **FIXED, **(FIXED_LOCALLY if settings.is_local else {})}


def address_properties(settings: SparkSettings) -> dict[str, str]:
    """Where executors reach the driver. Without a setting Spark takes the address of the host's name."""
    host = settings.driver_host or (LOOPBACK if settings.is_on_loopback else "")
    address = settings.bind_address or (LOOPBACK if settings.is_on_loopback else "")
    named = {"spark.driver.host": host, "spark.driver.bindAddress": address}
    return {key: value for key, value in named.items() if value}


def fetches_jars(user: Mapping[str, str]) -> bool:
    """Spark gives jars that it fetches a class loader below the class path. Ours must be in the same one to see them;
    otherwise the class path is better, because ``spark.jars`` copies every jar at every start."""
    return bool(user.get(JARS) or user.get(PACKAGES))


def beside_ours(conf: Mapping[str, str]) -> dict[str, str]:
    """With a person's jars on the class path, where ours are. Spark would give them a class loader below ours: classes
    in our jars could not see theirs."""
    named = [jar.strip().removeprefix("file://") for jar in conf.get(JARS, "").split(",") if jar.strip()]
    remote, local = [jar for jar in named if "://" in jar], [jar for jar in named if "://" not in jar]
    if not local:
        return dict(conf)
    class_path = LISTS[CLASS_PATH].join([*filter(None, [conf.get(CLASS_PATH)]), *local])
    kept = {JARS: ",".join(remote)} if remote else {}
    return {**{key: value for key, value in conf.items() if key != JARS}, **kept, CLASS_PATH: class_path}


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
            own = {**dict(one.engine_properties), **({conf.type_key: one.type} if conf.type_key else {})}
            properties |= {prefix: conf.catalog, **{f"{prefix}.{key}": value for key, value in own.items()}}
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


@cache
def job_code(folder: Path = JOBS) -> str:
    """A checksum of the jobs' code. Drivers load it when they need it, so that an upgrade would mix two versions:
    a driver that was started with other jobs is given no new work, and is replaced.
    """
    digest = sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def storage_properties(storage: Mapping[str, str], schemes: Sequence[str]) -> dict[str, str]:
    """How Spark reaches object stores: the options of the settings under the names of Hadoop and Lance."""
    if "s3" not in schemes:
        return {}
    found = {**S3_ALWAYS, **dict(hadoop_options(HADOOP_S3, s3_options(storage)))}
    for bucket in buckets_in(storage):
        found |= hadoop_options(f"{HADOOP_S3}bucket.{bucket}.", s3_options(storage, bucket))
    return found | {f"{LANCE_S3}{key.removeprefix('s3.')}": value for key, value in storage.items()}


def hadoop_options(prefix: str, options: S3Options) -> Iterator[tuple[str, str]]:
    if options.endpoint:
        yield f"{prefix}endpoint", options.endpoint
        yield f"{prefix}connection.ssl.enabled", "false" if options.is_http else "true"
    if options.region:
        yield f"{prefix}endpoint.region", options.region
    yield f"{prefix}path.style.access", "true" if options.is_path_style else "false"
    yield f"{prefix}aws.credentials.provider", provider_of(options)
    if options.access_key_id:
        yield f"{prefix}access.key", options.access_key_id
        yield f"{prefix}secret.key", options.secret_access_key
    if options.session_token:
        yield f"{prefix}session.token", options.session_token


def provider_of(options: S3Options) -> str:
    if not options.access_key_id:
        return ANY_CREDENTIALS
    return f"{S3A}.{'TemporaryAWSCredentialsProvider' if options.session_token else 'SimpleAWSCredentialsProvider'}"


def complete_pools(conf: Mapping[str, str], home: Path) -> dict[str, str]:
    """The setting of a person's file, if there is one.

    A file without the pool ``default`` is copied to the home, with that pool: without it, jobs would run one by one.
    """
    if not (named := conf.get(POOLS_FILE)):
        return {}
    pools = read_pools(named)
    if any(pool.get("name") == DEFAULT_POOL for pool in pools.iter("pool")):
        return {POOLS_FILE: named}
    added = ET.SubElement(pools, "pool", name=DEFAULT_POOL)
    for name, text in FAIR_POOL.items():
        ET.SubElement(added, name).text = text
    copy = home / "pools.xml"
    copy.write_text(ET.tostring(pools, encoding="unicode"), encoding="utf-8")
    return {POOLS_FILE: f"file://{copy}"}


def read_pools(named: str) -> ET.Element:
    path = named.removeprefix("file:")
    path = path.removeprefix("//") if path.startswith("//") else path
    if ":" in path.partition("/")[0]:
        raise Invalid(
            f"{POOLS_FILE} is {named}: only a file of this machine can be checked for its pool {DEFAULT_POOL!r}"
        )
    try:
        return ET.fromstring(Path(path).read_text(encoding="utf-8"))  # noqa: S314 - the operator's own file
    except (OSError, ValueError, ET.ParseError) as error:
        raise Invalid(f"{POOLS_FILE} is {named}, which cannot be read: {error}") from error
