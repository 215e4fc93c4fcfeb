# SPDX-License-Identifier: Apache-2.0
"""Jars that only tests need, beside those of the formats."""

from collections.abc import Sequence
from pathlib import Path

from lakehand.engines.spark.jars import ensure, jars_of, silent
from lakehand.engines.spark.known_jars import DRIVERS, FORMATS, STORAGE_JARS, Jar

OLD_HUDIS = {
    version: Jar(
        organisation="org.apache.hudi", module="hudi-spark3.5-bundle_2.12", version=version, size=size, sha256=sha256
    )
    for version, size, sha256 in (
        ("0.15.0", 109001611, "aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a"),
        ("1.0.2", 110844131, "2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8"),
        ("1.1.1", 80205727, "5470908f0d26897fb6e0768790e6c75e3d05d2fa013f7d81c8f90c74056d1604"),
    )
}
YARN = (
    Jar(
        organisation="org.apache.hadoop",
        module="hadoop-client-minicluster",
        version="3.3.4",
        size=37033043,
        sha256="cd8a1703393946c302bb3a52d0fcd23f6f8ded4554bc0dac5d2ee673dbe2b40e",
    ),
    Jar(
        organisation="junit",
        module="junit",
        version="4.13.2",
        size=384581,
        sha256="8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3",
    ),
    Jar(
        organisation="org.hamcrest",
        module="hamcrest-core",
        version="1.3",
        size=45024,
        sha256="66fdef91e9739348df7a096aa384a5685f4e875584cce89386a7a47251c4d8e9",
    ),
    Jar(
        organisation="ch.qos.reload4j",
        module="reload4j",
        version="1.2.22",
        size=332398,
        sha256="222f90d3e69541218ef6e70547749d693bd4c1846817e5bd7949b3e28950f99f",
    ),
    Jar(
        organisation="org.bouncycastle",
        module="bcprov-jdk15on",
        version="1.68",
        size=5961178,
        sha256="f732a46c8de7e2232f2007c682a21d1f4cc8a8a0149b6b7bd6aa1afdc65a0f8d",
    ),
    Jar(
        organisation="org.bouncycastle",
        module="bcpkix-jdk15on",
        version="1.68",
        size=887800,
        sha256="fb8d0f8f673ad6e16c604732093d7aa31b26ff4e0bd9cae1d7f99984c06b8a0f",
    ),
)
TEST_JARS: dict[str, tuple[Jar, ...]] = {
    "hudi-0.15": (OLD_HUDIS["0.15.0"],),  # writes tables of timeline layout 1
    "hudi-1.0.2": (OLD_HUDIS["1.0.2"],),
    "hudi-1.1.1": (OLD_HUDIS["1.1.1"],),
    "yarn": YARN,  # its ResourceManager and NodeManager; the rest is in pyspark
    **{f"jdbc-{name}": (jar,) for name, jar in DRIVERS.items()},  # an Iceberg JDBC catalog there
    "s3": tuple(jar for jars in STORAGE_JARS["3.5"]["s3"].values() for jar in jars),  # tables on an S3 server
}


def local_jars(names: Sequence[str]) -> list[Path]:
    """The jars of formats and of tests, by name."""
    wanted = [*jars_of([n for n in names if n in FORMATS]), *(jar for n in names for jar in TEST_JARS.get(n, ()))]
    return ensure(wanted, cache=None, java=None, progress=silent, sums=None)
