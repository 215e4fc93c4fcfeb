# SPDX-License-Identifier: Apache-2.0
"""Where a job finds its table, and what Lance's storage client is told besides the environment."""

import re
from dataclasses import dataclass, field
from typing import Any

from lakehand.jobs.job import Job

# An operator's settings of the engine, such as spark.lakehand.lance.aws_endpoint; never part of a request.
OPTIONS = "spark.lakehand.lance."
_ALIAS = re.compile(r"s3[an]://")


@dataclass(frozen=True)
class Source:
    uri: str
    options: dict[str, str] = field(repr=False)

    def open(self, version: int | None = None) -> Any:
        import lance  # in functions only: see rewriting.executor_function

        return lance.dataset(self.uri, version=version, storage_options=self.options or None)


def source_of(job: Job) -> Source:
    location = job.boundary.real  # never the registered one: a link there may lead elsewhere by now
    if not location.isprintable() or "\\" in location:
        raise ValueError(f"{location!r} has a backslash or a control character")
    session: Any = job.session  # none where an engine has no Spark: cleaning needs none
    conf = session.sparkContext.getConf().getAll() if session else []
    options = {key.removeprefix(OPTIONS): value for key, value in conf if key.startswith(OPTIONS)}
    return Source(_ALIAS.sub("s3://", location), options)
