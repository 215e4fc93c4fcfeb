# SPDX-License-Identifier: Apache-2.0
"""Compiles ``tests/java``: stand-ins for classes whose jars are not among ours, and a log store on trial."""

import os
import subprocess
from pathlib import Path
from zipfile import ZipFile

from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from tests.jars import local_jars

SOURCES = Path(__file__).parent / "java"


def compile_classes(folder: Path) -> Path:
    """All of them, below the folder, which may then be named in a class path."""
    wanted = [*local_jars(("delta", "hudi", "s3")), *(spark_home() / "jars").glob("hadoop-client-api-*.jar")]
    javac = java_home().program.with_name("javac")
    class_path = os.pathsep.join(map(str, wanted))
    sources = sorted(SOURCES.glob("*.java"))
    subprocess.run([javac, "-nowarn", "-cp", class_path, "-d", folder, *sources], check=True)
    return folder


def make_jar(folder: Path) -> Path:
    classes, jar = compile_classes(folder / "classes"), folder / "stand-ins.jar"
    with ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, str(file.relative_to(classes)))
    return jar
