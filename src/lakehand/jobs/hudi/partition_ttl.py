# SPDX-License-Identifier: Apache-2.0
"""Drops expired partitions by one replacecommit: their files stay until a clean, and those of savepoints forever.

Hudi compares a drop of partitions with no other commit. So the files are listed again while the table's lock is
held, and the drop is committed before the lock is released: what a writer has written until then stays.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from lakehand.jobs.hudi import calls, checks, rollbacks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, cut_off, operation_tag, would_delete
from lakehand.jobs.spark import ListedFile, jvm, list_folder

LEAST_HOURS = 7 * 24
TAG = "operation_tag"
MOST = 10_000
COMPLETED = re.compile(r"(\d{14}|\d{17})(?:_\d+)?\.replacecommit")
DATA = re.compile(r"\.?[^_.][^_]*_(?:\d+-\d+-\d+_)?(\d{14}|\d{17})\..+")


def run(job: Job) -> dict[str, Any]:
    location, oldest = checks.enter(job), cut_off(job.parameters.get("older_than"), LEAST_HOURS)
    announced = partitions_in(job)
    calls.use_options(job.session, job.parameters["options"])
    if job.parameters.get("dry_run") is not False:
        return report(job, location, announced)
    if committed := find_commit(job, location):
        return {"instants": [committed], "already_done": True}
    rollbacks.wait_for_writes(job, location)
    job.check()
    checks.check_again(job)
    job.phase("waiting for the table's lock")
    with timelines.locked(job.session, location):
        kept = written_since(job, location, announced, oldest)
        doomed = [name for name in announced if name not in kept]
        job.note("kept", kept)
        instants = [drop(job, location, doomed)] if doomed else []
    return {"instants": instants, "dropped": doomed, "kept": kept}


def partitions_in(job: Job) -> list[str]:
    """The partitions that were announced: folders of the table, and none of its own."""
    names = job.parameters.get("partitions")
    if not isinstance(names, list) or not 0 < len(names) <= MOST or not all(isinstance(one, str) for one in names):
        raise UnsafeRequest(f"{names!r} is not a list of partitions")
    if odd := [one for one in names if not one or one.startswith((".", "/")) or "//" in one]:
        raise UnsafeRequest(f"{odd[0]!r} is not a partition of a table")
    job.boundary.refuse_outside(names, doing="drop")
    return names


def report(job: Job, location: str, names: Sequence[str]) -> dict[str, Any]:
    files = {name: data_files(job, location, name) for name in names}
    size = sum(file.size for found in files.values() for file in found)
    listed = [f"{name} ({len(found)} files, {sum(file.size for file in found)} bytes)" for name, found in files.items()]
    return {**would_delete(listed, sum(map(len, files.values())), size), "partitions": len(names)}


def data_files(job: Job, location: str, name: str) -> list[ListedFile]:
    return [file for file in list_folder(job.session, f"{location}/{name}") if DATA.fullmatch(file.name)]


def written_since(job: Job, location: str, names: Sequence[str], oldest: int) -> dict[str, str]:
    """Partitions with a file that is younger than the decision allows, with the reason."""
    kept: dict[str, str] = {}
    for name in names:
        young = [file.name for file in data_files(job, location, name) if written_at(file) >= oldest]
        if young:
            kept[name] = f"{name} was written meanwhile: {max(young)}"
    return kept


def written_at(file: ListedFile) -> int:
    """In epoch milliseconds: by its name or its change, whichever is later."""
    found = DATA.fullmatch(file.name)
    try:
        named = datetime.strptime(found[1][:14] if found else "", "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:  # digits that are not a time
        return int(file.modified * 1000)
    return int(max(named.timestamp(), file.modified) * 1000)


def drop(job: Job, location: str, names: Sequence[str]) -> str:
    """Returns the instant of the replacecommit."""
    java = jvm(job.session).java.util
    doomed, extra = java.ArrayList(), java.HashMap()
    for name in names:
        doomed.add(name)
    extra.put(TAG, operation_tag(job.parameters))
    # The mode stays, so that the commit has a heartbeat while it is under way.
    with timelines.write_client(job.session, location, timelines.inside_the_lock(job.session)) as client:
        return commit(job, client, doomed, extra)


def commit(job: Job, client: Any, doomed: Any, extra: Any) -> str:
    option, instant = jvm(job.session).org.apache.hudi.common.util.Option, str(client.startDeletePartitionCommit())
    job.phase(f"dropping {len(doomed)} partitions by {instant}")
    found = client.deletePartitions(doomed, instant)
    groups = found.getPartitionToReplaceFileIds()
    if others := set(groups) - set(doomed):
        raise UnsafeRequest(f"Hudi would drop {sorted(others)[0]!r}, which was not announced")
    job.check()
    client.commit(instant, found.getWriteStatuses(), option.of(extra), "replacecommit", groups, option.empty())
    job.note("committed", instant)
    return instant


def find_commit(job: Job, location: str) -> str | None:
    """The instant of this operation's commit, if an earlier attempt has made one."""
    tag, folder = operation_tag(job.parameters), timelines.folder(job.session, location)
    seen = str(job.parameters.get("seen") or "").ljust(17, "0")
    for file in list_folder(job.session, folder):
        name = COMPLETED.fullmatch(file.name)
        if name and name[1].ljust(17, "0") > seen and extra_of(checks.read_document(job, file.path)).get(TAG) == tag:
            return name[1]
    return None


def extra_of(document: Any) -> Mapping[str, Any]:
    found = document.get("extraMetadata") if isinstance(document, dict) else None
    # Avro's JSON names the type of an optional value.
    found = found.get("map", found) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}
