# SPDX-License-Identifier: Apache-2.0
"""Jars that only tests need, beside those of the formats."""

from collections.abc import Sequence
from pathlib import Path

from lakehand.engines.spark.jars import FORMATS, Jar, ensure, jars_of, silent

OLD_HUDI = Jar(
    organisation="org.apache.hudi",
    module="hudi-spark3.5-bundle_2.12",
    version="0.15.0",
    size=109001611,
    sha256="aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a",
)
SQLITE_JDBC = Jar(
    organisation="org.xerial",
    module="sqlite-jdbc",
    version="3.46.1.3",
    size=14127503,
    sha256="4a4832720a65eaf7f4d6fd7ede52087b994dc5633c076f9e994dc0c8b4b0b4fa",
)
HADOOP_AWS = Jar(
    organisation="org.apache.hadoop",
    module="hadoop-aws",
    version="3.3.4",
    size=962685,
    sha256="53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
)
AWS_SDK = Jar(
    organisation="com.amazonaws",
    module="aws-java-sdk-bundle",
    version="1.12.262",
    size=280645251,
    sha256="873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
)

TEST_JARS: dict[str, tuple[Jar, ...]] = {
    "hudi-0.15": (OLD_HUDI,),  # writes tables of timeline layout 1
    "jdbc-sqlite": (SQLITE_JDBC,),  # an Iceberg JDBC catalog on SQLite
    "s3": (HADOOP_AWS, AWS_SDK),  # tables on an S3 server
}


def local_jars(names: Sequence[str]) -> list[Path]:
    """The jars of formats and of tests, by name."""
    wanted = [*jars_of([n for n in names if n in FORMATS]), *(jar for n in names for jar in TEST_JARS.get(n, ()))]
    return ensure(wanted, cache=None, java=None, progress=silent, sums=None)
