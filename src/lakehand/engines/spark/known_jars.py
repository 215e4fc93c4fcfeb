# SPDX-License-Identifier: Apache-2.0
"""The jars of each table format, object store and JDBC catalog, pinned by size and checksum."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    organisation: str
    module: str
    version: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.version}.jar"


HUDI = Jar(
    organisation="org.apache.hudi",
    module="hudi-spark3.5-bundle_2.12",
    version="1.2.0",
    size=80667825,
    sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
)

ICEBERG = Jar(
    organisation="org.apache.iceberg",
    module="iceberg-spark-runtime-3.5_2.12",
    version="1.12.0",
    size=48252525,
    sha256="8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
)
DELTA = Jar(
    organisation="io.delta",
    module="delta-spark_2.12",
    version="3.3.3",
    size=7123349,
    sha256="4912bf902a1c453aba3bd838ff212dedd357155212f9bb37a6b47d97f2827ebc",
)
DELTA_STORAGE = Jar(
    organisation="io.delta",
    module="delta-storage",
    version="3.3.3",
    size=32289,
    sha256="45ad193053fd30cebe6d9ab1889873cde39b223a0f210e00ebee8b6642476901",
)
PAIMON = Jar(
    organisation="org.apache.paimon",
    module="paimon-spark-3.5",
    version="0.9.0",
    size=41660699,
    sha256="e9e8a90a630a1440dfd869bb568c8fc916d6de23bc162922cc0c2684ed6fa15b",
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
ICEBERG_AWS = Jar(
    organisation="org.apache.iceberg",
    module="iceberg-aws-bundle",
    version="1.12.0",
    size=69034612,
    sha256="dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)

POSTGRESQL_JDBC = Jar(
    organisation="org.postgresql",
    module="postgresql",
    version="42.7.14",
    size=1221004,
    sha256="73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
)
MARIADB_JDBC = Jar(
    organisation="org.mariadb.jdbc",
    module="mariadb-java-client",
    version="3.5.11",
    size=793387,
    sha256="42604178b9e57ec08ee0035079961516f086e455d0141f0b22c6eff29fb2fff4",
)
SQLITE_JDBC = Jar(
    organisation="org.xerial",
    module="sqlite-jdbc",
    version="3.46.1.3",
    size=14127503,
    sha256="4a4832720a65eaf7f4d6fd7ede52087b994dc5633c076f9e994dc0c8b4b0b4fa",
)

# Spark version → format → its jars. Nothing is resolved transitively.
# The class path of a driver has the formats in this order.
JARS: dict[str, dict[str, tuple[Jar, ...]]] = {
    "3.5": {
        "iceberg": (ICEBERG,),
        "delta": (DELTA, DELTA_STORAGE),
        "paimon": (PAIMON,),
        "hudi": (HUDI,),
        "lance": (),  # pylance needs no jar
    },
}
# Spark version → scheme → format → its jars for that store; an empty name: for all formats.
STORAGE_JARS: dict[str, dict[str, dict[str, tuple[Jar, ...]]]] = {
    "3.5": {"s3": {"": (HADOOP_AWS, AWS_SDK), "iceberg": (ICEBERG_AWS,), "lance": (ICEBERG_AWS,)}},
}
# Database → the driver of a JDBC catalog in it. MySQL's own has a licence that a person must choose.
DRIVERS: dict[str, Jar] = {"postgresql": POSTGRESQL_JDBC, "mariadb": MARIADB_JDBC, "sqlite": SQLITE_JDBC}
FORMATS = ("iceberg", "delta", "paimon", "hudi", "lance")
