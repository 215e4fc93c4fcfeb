# SPDX-License-Identifier: Apache-2.0
"""A person's packages: resolved once, with what they need, into local files on one class path with our jars.

The real Ivy works on a repository in a temporary folder.
"""

from pathlib import Path

import pytest

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.command import beside_ours
from lakehand.engines.spark.jars import JarsUnavailable
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.packages import ivy_file, settings_file, with_local_packages
from lakehand.engines.spark.settings import SparkSettings

NO_JAVA = Java(home=Path("/nonexistent"), version=17, origin="test")
PACKAGES = "spark.jars.packages"
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>
<version>1.0</version><packaging>jar</packaging><dependencies>{needs}</dependencies></project>"""
NEED = "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>1.0</version></dependency>"
NEEDED = {"udfs": [("org.example", "maths"), ("org.apache.spark", "spark-sql_2.12")], "maths": []}


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """Two modules, as Maven lays them out: one needs the other, and Spark itself."""
    for name, needs in NEEDED.items():
        module = tmp_path / "repository" / "org" / "example" / name / "1.0"
        module.mkdir(parents=True)
        (module / f"{name}-1.0.jar").write_bytes(name.encode())
        written = "".join(NEED.format(group=group, name=need) for group, need in needs)
        (module / f"{name}-1.0.pom").write_text(POM.format(name=name, needs=written))
    return f"file://{tmp_path / 'repository'}"


def local(**conf: str) -> SparkSettings:
    return SparkSettings(conf={key.replace("_", "."): value for key, value in conf.items()})


@pytest.mark.spark
def test_packages_become_local_jars_with_all_that_they_need_once(repository: str, tmp_path: Path) -> None:
    settings = local(
        spark_jars_packages="org.example:udfs:1.0", spark_jars_repositories=repository, spark_jars="/own.jar"
    )

    resolved = with_local_packages(settings, cache=tmp_path / "jars", java=java_home())
    again = with_local_packages(settings, cache=tmp_path / "jars", java=NO_JAVA)

    named = resolved.conf["spark.jars"].split(",")
    assert [Path(one).name for one in named] == ["own.jar", "org.example_maths-1.0.jar", "org.example_udfs-1.0.jar"]
    assert Path(named[2]).read_bytes() == b"udfs"
    assert list(resolved.conf) == ["spark.jars"], "Spark is not asked to resolve them again"
    assert beside_ours(resolved.conf) == {"spark.driver.extraClassPath": ":".join(named)}
    assert again == resolved


@pytest.mark.spark
def test_a_package_that_is_not_there_is_named_and_leaves_nothing(repository: str, tmp_path: Path) -> None:
    settings = local(spark_jars_packages="org.example:none:1.0", spark_jars_ivySettings=str(tmp_path / "ivy.xml"))
    only_here = settings_file(repository).replace('<ibiblio name="central" m2compatible="true"/>', "")
    (tmp_path / "ivy.xml").write_text(only_here)

    with pytest.raises(JarsUnavailable, match=r"org\.example:none:1\.0 could not be resolved.*not found"):
        with_local_packages(settings, cache=tmp_path / "jars", java=java_home())

    assert [file.name for file in (tmp_path / "jars" / "packages").iterdir()] == [".lock"]


def test_a_cluster_resolves_its_packages_itself(tmp_path: Path) -> None:
    settings = SparkSettings(master="spark://host:7077", conf={PACKAGES: "a:b:1"})
    assert with_local_packages(settings, cache=tmp_path, java=NO_JAVA) == settings


@pytest.mark.parametrize("text", ["a:b", "a:b:1;rm", 'a:b:"/><x', "a b:c:1"])
def test_what_is_no_package_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="group:artifact:version is needed"):
        ivy_file({PACKAGES: text})


def test_local_jars_are_beside_ours_also_where_spark_must_fetch_others() -> None:
    conf = {"spark.jars": "/a.jar,s3a://jars/b.jar"}
    assert beside_ours(conf) == {"spark.jars": "s3a://jars/b.jar", "spark.driver.extraClassPath": "/a.jar"}
