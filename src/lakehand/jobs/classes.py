# SPDX-License-Identifier: Apache-2.0
"""Classes that settings or tables name to protect commits: a log store of Delta, a lock of Hudi. If such a class is not
in the driver, nothing is committed. As a job of its own this says why a class cannot be loaded."""

from typing import Any

from py4j.protocol import Py4JJavaError

from lakehand.jobs.causes import causes_of
from lakehand.jobs.job import Job
from lakehand.jobs.spark import jvm


class ClassMissing(Exception):
    """A class that protects commits cannot be loaded in the driver."""


def run(job: Job) -> dict[str, Any]:
    return {"missing": why_missing(job, str(job.parameters["class"]))}


def require_class(job: Job, name: str, setting: str) -> None:
    """Raise unless the driver can load the class that a setting names, or that its value needs."""
    if why := why_missing(job, name):
        raise ClassMissing(
            f"{setting} needs the class {name}, which is not in the Spark driver ({why}): without it commits are not "
            "protected, so that nothing is committed. Name the jar that has it in spark.jars or spark.jars.packages "
            "([spark]), or correct the name; `lakehand doctor` checks it"
        )


def why_missing(job: Job, name: str) -> str:
    """Empty if the class can be loaded, as Spark, Delta and Hudi load theirs. It is initialised by them, not here."""
    java = jvm(job.session).java.lang
    try:
        java.Class.forName(name, False, java.Thread.currentThread().getContextClassLoader())
    except Py4JJavaError as error:
        return causes_of(error)[0].name.rpartition(".")[2]
    return ""
