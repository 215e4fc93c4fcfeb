# SPDX-License-Identifier: Apache-2.0
"""A person's ``spark.jars.packages``: resolved once with the Ivy of pyspark, then local jars beside ours.

Left to Spark, they would be in a class loader below ours (classes of our jars could not see theirs), and resolving
them again at every start would take seconds.
"""

import hashlib
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import quoteattr

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.jars import DOWNLOAD_TIMEOUT, JarsUnavailable, exclusive, spark_home, spark_line
from lakehand.engines.spark.java import Java
from lakehand.engines.spark.settings import SparkSettings

JARS, PACKAGES = "spark.jars", "spark.jars.packages"
EXCLUDES, REPOSITORIES, SETTINGS = "spark.jars.excludes", "spark.jars.repositories", "spark.jars.ivySettings"
OURS = frozenset({PACKAGES, EXCLUDES, REPOSITORIES, SETTINGS, "spark.jars.ivy"})  # Spark itself is asked for none
SCALA = {"3.5": "2.12"}
PARTS_OF_SPARK = (
    "catalyst", "core", "graphx", "kvstore", "launcher", "mllib", "mllib-local", "network-common", "network-shuffle",
    "repl", "sketch", "sql", "streaming", "tags", "unsafe",
)  # fmt: skip
_PART = r"[A-Za-z0-9_.-]+"
_PACKAGE = re.compile(rf"({_PART})[:/]({_PART})[:/]({_PART})")
_MODULE = re.compile(rf"({_PART}|\*)[:/]({_PART}|\*)")


def with_local_packages(settings: SparkSettings, *, cache: Path, java: Java) -> SparkSettings:
    """The same settings, with the files in ``spark.jars`` instead of the packages. A cluster resolves its own."""
    if not settings.is_local or not settings.conf.get(PACKAGES, "").strip():
        return settings
    files = resolve(settings.conf, cache, java)
    named = [*filter(None, [settings.conf.get(JARS)]), *(str(file) for file in files)]
    return replace(settings, conf={**without_packages(settings.conf), JARS: ",".join(named)})


def without_packages(conf: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in conf.items() if key not in OURS}


def resolve(conf: Mapping[str, str], cache: Path, java: Java) -> list[Path]:
    """The jars of the packages and of what they need. The same packages are downloaded once."""
    wanted = ivy_file(conf)
    key = hashlib.sha256((wanted + conf.get(REPOSITORIES, "") + conf.get(SETTINGS, "")).encode()).hexdigest()[:16]
    folder = cache / "packages" / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.parent):
        if not folder.is_dir():
            fetch(conf, wanted, folder, java)
    return sorted(folder.glob("*.jar"))


def fetch(conf: Mapping[str, str], wanted: str, folder: Path, java: Java) -> None:
    """All of them, or none: the folder appears when it is complete."""
    with TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "ivy.xml").write_text(wanted, encoding="utf-8")
        command = ivy_command(conf, scratch, java)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise JarsUnavailable(f"{conf[PACKAGES]} did not arrive within {DOWNLOAD_TIMEOUT} s") from error
        fetched = scratch / "jars"
        if done.returncode != 0 or not any(fetched.glob("*.jar")):
            raise JarsUnavailable(unavailable(conf[PACKAGES], done.stdout + done.stderr))
        fetched.replace(folder)


def unavailable(packages: str, said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip(" .:\t") and "::::" not in line]
    telling = [line for line in lines if "unresolved" in line.lower() or "not found" in line.lower()] or lines[-6:]
    return (
        f"{PACKAGES} = {packages} could not be resolved. Check the names and the network and try again, or name local "
        f"files in {JARS}. Ivy said: {' | '.join(dict.fromkeys(telling))[:1000]}"
    )


def ivy_command(conf: Mapping[str, str], scratch: Path, java: Java) -> list[str | Path]:
    [ivy] = (spark_home() / "jars").glob("ivy-*.jar")
    pattern = f"{scratch}/jars/[organisation]_[artifact]-[revision](-[classifier]).[ext]"
    settings: list[str | Path] = []
    if named := conf.get(SETTINGS):
        settings = ["-settings", named]
    elif conf.get(REPOSITORIES):
        (scratch / "ivysettings.xml").write_text(settings_file(conf[REPOSITORIES]), encoding="utf-8")
        settings = ["-settings", scratch / "ivysettings.xml"]
    wanted: list[str | Path] = [
        "-ivy",
        scratch / "ivy.xml",
        "-confs",
        "default",
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        pattern,
    ]
    return [java.program, *java.options, "-jar", ivy, "-warn", *settings, "-cache", scratch / "ivy", *wanted]


def ivy_file(conf: Mapping[str, str]) -> str:
    lines = [
        element("dependency", org=o, name=n, rev=r, conf="default->default(runtime)") for o, n, r in packages(conf)
    ]
    lines += [element("exclude", org=org, module=module) for org, module in excluded(conf)]
    inside = "".join(lines)
    head = '<info organisation="lakehand" module="packages"/><configurations><conf name="default"/></configurations>'
    return f'<ivy-module version="2.0">{head}<dependencies>{inside}</dependencies></ivy-module>'


def settings_file(repositories: str) -> str:
    roots = [one.strip() for one in repositories.split(",") if one.strip()]
    named = [element("ibiblio", name=f"r{i}", m2compatible="true", root=root) for i, root in enumerate(roots)]
    chain = "".join([*named, element("ibiblio", name="central", m2compatible="true")])
    inside = f'<resolvers><chain name="all">{chain}</chain></resolvers>'
    return f'<ivysettings><settings defaultResolver="all"/>{inside}</ivysettings>'


def element(tag: str, **attributes: str) -> str:
    return f"<{tag} {' '.join(f'{key}={quoteattr(value)}' for key, value in attributes.items())}/>"


def packages(conf: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for one in listed(conf, PACKAGES):
        if (match := _PACKAGE.fullmatch(one)) is None:
            raise Invalid(f"{PACKAGES} has {one!r}: group:artifact:version is needed")
        yield match.groups()


def excluded(conf: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """What the person excludes, and what Spark has already."""
    scala = SCALA.get(spark_line(), "2.13")
    yield "*", "scala-library"
    yield from (("org.apache.spark", f"spark-{part}_{scala}") for part in PARTS_OF_SPARK)
    for one in listed(conf, EXCLUDES):
        if (match := _MODULE.fullmatch(one)) is None:
            raise Invalid(f"{EXCLUDES} has {one!r}: group:artifact is needed")
        yield match.groups()


def listed(conf: Mapping[str, str], key: str) -> list[str]:
    return [one.strip() for one in conf.get(key, "").split(",") if one.strip()]
