# SPDX-License-Identifier: Apache-2.0
"""The dataset of a job, and the checks that keep a job inside it.

Lance's clean-up follows links and deletes whatever lies in the folders that it lists, tables of others included. Where
the table's config says so, each commit cleans up, too. And a manifest may name other base paths, which a rewrite reads.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical, has_scheme

# An operator's settings of the engine, such as spark.lakehand.lance.aws_endpoint; never part of a request.
OPTIONS = "spark.lakehand.lance."
STORE = "spark.lakehand.s3."  # where the engine puts the settings of [storage.s3]
S3_NAMES = {
    "endpoint": "aws_endpoint",
    "region": "aws_region",
    "access-key-id": "aws_access_key_id",
    "secret-access-key": "aws_secret_access_key",
    "session-token": "aws_session_token",
}
AUTO_CLEANUP = "lance.auto_cleanup."  # keys of a table's config
DATA = "data/"
_ALIAS = re.compile(r"s3[an]://")
_BRANCH = re.compile(r"_refs/branches/([^/]+)\.json")


@dataclass(frozen=True)
class Source:
    uri: str
    options: dict[str, str] = field(repr=False)  # of Lance's storage client, in addition to the environment

    def open(self) -> Any:
        import lance  # in functions only: see commits.executor_function

        return lance.dataset(self.uri, storage_options=self.options or None)


def source_of(job: Job) -> Source:
    location = job.boundary.real  # never the registered one: a link there may lead elsewhere by now
    if not location.isprintable() or "\\" in location:
        raise ValueError(f"{location!r} has a backslash or a control character")
    session: Any = job.session  # none where an engine has no Spark: cleaning needs none
    conf = session.sparkContext.getConf().getAll() if session else []
    options = {key.removeprefix(OPTIONS): value for key, value in conf if key.startswith(OPTIONS)}
    return Source(_ALIAS.sub("s3://", location), {**s3_options(location, dict(conf)), **options})


def s3_options(location: str, conf: dict[str, str]) -> dict[str, str]:
    """As the settings name the store, under the names of Lance's storage client; what differs for a bucket wins."""
    if not _ALIAS.sub("s3://", location).startswith("s3://"):
        return {}
    bucket = f"bucket.{location.split('://', 1)[1].partition('/')[0]}."
    said = {key.removeprefix(STORE): value for key, value in conf.items() if key.startswith(STORE)}
    said |= {key.removeprefix(bucket): value for key, value in said.items() if key.startswith(bucket)}
    named = {name: said.get(key, "") for key, name in S3_NAMES.items()}
    named["allow_http"] = "true" if said.get("endpoint", "").startswith("http://") else ""
    named["aws_virtual_hosted_style_request"] = "true" if said.get("path-style-access") == "false" else ""
    return {key: value for key, value in named.items() if value}


def open_for_listing(job: Job, source: Source) -> Any:
    """Before Lance lists and deletes: neither links nor other tables below this one; its own branches may be there."""
    boundary = job.boundary
    boundary.check_path()
    if boundary.is_local:
        files = list(boundary.files(None))
    else:  # by Lance's own client, which has the credentials
        files = [path for batch in source.open().all_files() for path in batch.column("path").to_pylist()]
    branches = {f"tree/{unquote(match[1])}" for file in files if (match := _BRANCH.fullmatch(file))}
    boundary.refuse_tables_below("lance", files, also_own=branches.__contains__)
    return open_admitted(job, source)


def open_admitted(job: Job, source: Source) -> Any:
    """The dataset, if it is the table that was admitted.

    A Lance table has no identity of its own. The transaction that made the version which was admitted comes near.
    """
    dataset, admitted = source.open(), job.parameters.get("identity")
    if not isinstance(admitted, dict) or not isinstance(admitted.get("version"), int):
        raise OutsideTable(f"the work does not say which table it was admitted for: {admitted!r}")
    version = admitted["version"]
    rows = (row for row in tracked_files(dataset, version) if row["version"] == version)
    files = (str(row["path"]).rpartition("/")[2] for row in rows if row["type"] == "transaction file")
    transaction = next(files, "")  # none in a version that is not there, or that an old writer made
    job.boundary.refuse_other_table({"version": version, "transaction": transaction}, admitted)
    return dataset


def check_commit(job: Job, source: Source) -> None:
    """Right before a commit. A commit that cleans up, which Lance has no switch for, lists and deletes as well."""
    job.boundary.check()
    dataset = open_admitted(job, source)
    if any(key.startswith(AUTO_CLEANUP) for key in dataset.config()):
        open_for_listing(job, source)


def refuse_foreign_files(boundary: JobBoundary, dataset: Any) -> None:
    """Before a rewrite: data files, deletions and indices of this version are all the table's own."""
    boundary.refuse_outside(odd_files(boundary, tracked_files(dataset, dataset.version)), doing="rewrite")


def foreign_files(boundary: JobBoundary, dataset: Any) -> set[str]:
    """Files outside that any version names. Only a table with other base paths has some."""
    return set(boundary.outside(odd_files(boundary, tracked_files(dataset, 0)))) if dataset.base_paths() else set()


def tracked_files(dataset: Any, since: int) -> Iterator[dict[str, Any]]:
    for batch in dataset.tracked_files(min_version=since):
        yield from batch.to_pylist()


def odd_files(boundary: JobBoundary, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Whole paths of all but the plain files of the table's own folder, where the walk has found no link.

    A data file's name may look like a whole path itself: Lance 14 escapes it, and it is refused all the same.
    """
    own = canonical(boundary.real)
    for row in rows:
        base, path = str(row["base_uri"]), str(row["path"])
        name = path.removeprefix(DATA)
        is_whole = name.startswith("/") or has_scheme(name)
        if is_whole or ".." in path or canonical(base) != own:
            yield name if is_whole else f"{base}/{path}"
