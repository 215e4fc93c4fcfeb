# SPDX-License-Identifier: Apache-2.0
"""Options for users' own PySpark writers; standard library only, so that it can be copied to any cluster."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

CLIENT_WORKS_SINCE = (1, 2, 1)  # older clients fail before they send anything
MERGE_ON_READ = "MERGE_ON_READ"
COPY_ON_WRITE = "COPY_ON_WRITE"
TABLE_TYPES = (MERGE_ON_READ, COPY_ON_WRITE)
ACTIONS = ("compaction", "clustering", "clean")
INLINE = "inline"

MANAGER = "hoodie.table.service.manager"
CALLBACK = "hoodie.write.commit.callback"
PROVIDER = "hoodie.write.lock.provider"
ALLOW_UPDATES = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
PREFER_WRITER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
NO_LOCK = (
    "clustering without lock=...: Hudi refuses this writer's updates of files that a pending clustering plan names, "
    "until the plan has run. With a lock that Lakehand shares, as lock=file_lock(folder), the writer always wins"
)
NO_INDEX = (
    "compaction of a merge-on-read table without index=...: Hudi's default index looks only into base files. A key "
    "that was deleted, and comes back while a compaction plan is pending, can become two rows or lose its next delete. "
    'index="bucket" (for new tables) and index="record" have no such keys; index="SIMPLE" keeps the default'
)
# A record index takes a key for the same in all partitions. Both its switch and its type are needed: with the switch
# alone the writer keeps the index and looks elsewhere, and readers who ask for a key do not find it.
INDEXES: Mapping[str, Mapping[str, str]] = {
    "bucket": {"hoodie.index.type": "BUCKET"},
    "record": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"},
}
ALONE = ("InProcessLockProvider", "NoopLockProvider")  # locks that no other process sees


def hudi_options(
    url: str,
    *,
    hudi_version: str = "1.2.0",
    actions: Sequence[str] = ("compaction",),
    table_type: str = MERGE_ON_READ,
    database: str | None = None,
    owner: str | None = None,
    queue: str | None = None,
    token: str | None = None,
    callback_key: str | None = None,
    max_delta_commits: int = 5,
    max_commits: int = 4,
    lock: Mapping[str, str] | None = None,
    index: str | None = None,
    fallback: str | None = None,
    timeout: float = 2.0,
) -> dict[str, str]:
    """The options of a Hudi writer that leaves ``actions`` to the Lakehand at ``url``, for ``.options(**...)``.

    From Hudi 1.2.1 on the writer asks Lakehand itself; older ones report each commit and leave their plans on the
    timeline. ``max_delta_commits`` says how often a compaction is planned, ``max_commits`` a clustering. ``lock`` are
    the table's ``hoodie.write.lock.*`` options, see ``file_lock``. With a lock this writer wins against a clustering
    of the same files; without one Hudi refuses its updates while a clustering plan is pending, and a warning says so.
    ``index`` is "bucket" (for new tables), "record", or an index type of Hudi. With the default one, keys that come
    back after a delete can become two rows beside a pending compaction plan, and a warning says so.
    With ``fallback="inline"`` the service is contacted first, for at most ``timeout`` seconds: if it does not answer,
    the writer does everything itself, as without Lakehand.
    """
    plan = WriterPlan(
        url=checked_url(url), version=parsed_version(hudi_version), actions=checked_actions(actions),
        table_type=checked_table_type(table_type), owner=owner, queue=queue, token=token, callback_key=callback_key,
        max_delta_commits=max_delta_commits, max_commits=max_commits, lock=lock or {}, index=checked_index(index),
    )  # fmt: skip
    if fallback not in (None, INLINE):
        raise ValueError(f'fallback is {fallback!r}: use "{INLINE}", or leave it out')
    away = fallback == INLINE and not is_ready(url, timeout=timeout)
    named = {"hoodie.database.name": database} if database else {}
    return {**named, **(inline(plan) if away else connected(plan)), **plan.index, **locking(plan)}


def file_lock(folder: str) -> dict[str, str]:
    """A lock in a folder that the writer and Lakehand both see: local disks and HDFS, not object stores."""
    return {
        PROVIDER: "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.filesystem.path": folder,
        "hoodie.write.lock.filesystem.expire": "3",  # minutes: a killed process leaves its lock behind
        # Wait longer than the expiry, whatever the version's default is.
        "hoodie.write.lock.client.num_retries": "240",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "1000",
    }


def storage_lock() -> dict[str, str]:
    """A lock in the table's own folder in a bucket. On S3 the writer and Lakehand both need Hudi's jar hudi-aws."""
    return {PROVIDER: "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"}


def delta_options(*, region: str, table: str = "delta_log") -> dict[str, str]:
    """The settings of a Spark session that commits to Delta tables on S3 while others do, Lakehand among them.

    All of them need the same ones, and the jar delta-storage-s3-dynamodb. ``table`` is the DynamoDB table that says
    which commit was first, in ``region``.
    """
    log_store = "io.delta.storage.S3DynamoDBLogStore"
    return {
        **{f"spark.delta.logStore.{scheme}.impl": log_store for scheme in ("s3", "s3a")},
        f"spark.{log_store}.ddb.tableName": table,
        f"spark.{log_store}.ddb.region": region,
    }


def is_ready(url: str, *, timeout: float = 2.0) -> bool:
    """Whether the service at ``url`` accepts notifications now. Never raises."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen  # imports TLS, which most commands do not need

    try:
        with urlopen(Request(f"{checked_url(url)}/health/ready"), timeout=timeout) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False


@dataclass(frozen=True, kw_only=True)
class WriterPlan:
    """The validated arguments of ``hudi_options``."""

    url: str
    version: tuple[int, ...]
    actions: tuple[str, ...]
    table_type: str
    owner: str | None = None
    queue: str | None = None
    token: str | None = None
    callback_key: str | None = None
    max_delta_commits: int = 5
    max_commits: int = 4
    lock: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, str] = field(default_factory=dict)

    @property
    def compacts(self) -> bool:
        return "compaction" in self.actions and self.table_type == MERGE_ON_READ

    @property
    def uses_client(self) -> bool:
        """Whether Hudi's own client is used. It sends nothing unless compaction is among its actions."""
        may_name_compaction = "compaction" in self.actions or self.table_type == COPY_ON_WRITE
        return self.version >= CLIENT_WORKS_SINCE and may_name_compaction


def connected(plan: WriterPlan) -> dict[str, str]:
    notifying = manager_client(plan) if plan.uses_client else commit_callback(plan)
    return {**notifying, **compaction(plan), **clustering(plan), **clean(plan)}


def manager_client(plan: WriterPlan) -> dict[str, str]:
    if urlsplit(plan.url).path:
        raise ValueError(f"Hudi's client drops the path of {plan.url}: give Lakehand a host and port of its own")
    named = [a for a in ACTIONS if a in plan.actions or a == "compaction"]
    options = {
        f"{MANAGER}.enabled": "true",
        f"{MANAGER}.uris": f"{plan.url}/?token={quote(plan.token, safe='')}" if plan.token else plan.url,
        f"{MANAGER}.actions": ",".join(named),
        f"{MANAGER}.connection.timeout.sec": "10",
        # The client calls after the commit: a service that does not answer must not fail the writer.
        "hoodie.fail.writes.on.inline.table.service.exception": "false",
    }
    deploy = {"username": plan.owner, "queue": plan.queue}
    return {**options, **{f"{MANAGER}.deploy.{key}": value for key, value in deploy.items() if value}}


def commit_callback(plan: WriterPlan) -> dict[str, str]:
    options = {
        f"{CALLBACK}.on": "true",
        f"{CALLBACK}.http.url": f"{plan.url}/v1/hoodie/service/callback",
        f"{CALLBACK}.http.timeout.seconds": "3",
    }
    return {**options, f"{CALLBACK}.http.api.key": plan.callback_key} if plan.callback_key else options


def compaction(plan: WriterPlan) -> dict[str, str]:
    if not plan.compacts:
        return {}
    if not plan.index:
        warnings.warn(NO_INDEX, stacklevel=4)
    return {
        # With the client on, "inline" sends a request after every commit, which repeats a lost one.
        "hoodie.compact.inline": flag(plan.uses_client),
        "hoodie.compact.schedule.inline": flag(not plan.uses_client),
        "hoodie.compact.inline.max.delta.commits": str(plan.max_delta_commits),
        "hoodie.datasource.compaction.async.enable": "false",
    }


def clustering(plan: WriterPlan) -> dict[str, str]:
    if "clustering" not in plan.actions:
        return {}
    if not plan.lock:
        warnings.warn(NO_LOCK, stacklevel=4)
    return {
        "hoodie.clustering.inline": "false",
        "hoodie.clustering.async.enabled": "false",
        "hoodie.clustering.schedule.inline": "true",
        "hoodie.clustering.async.max.commits": str(plan.max_commits),
    }


def clean(plan: WriterPlan) -> dict[str, str]:
    if "clean" not in plan.actions:
        return {}
    if plan.uses_client:
        return {"hoodie.clean.automatic": "true", "hoodie.clean.async.enabled": "false"}
    if not plan.lock:
        raise ValueError(
            "this writer leaves no clean plans, so Lakehand plans them, under the table's lock: "
            "pass lock=..., for instance file_lock(folder), or leave clean to the writer"
        )
    return {"hoodie.clean.automatic": "false"}


def writer_wins(lock: Mapping[str, str]) -> dict[str, str]:
    """Update files that a clustering is about to replace, and let the clustering give way; under the lock only.

    Whoever shares the table's lock may plan a clustering of it, so this does not depend on the writer's own actions.
    """
    if lock.get(PROVIDER, "").rpartition(".")[2] in ("", *ALONE):
        raise ValueError(
            f"{PROVIDER} is {lock.get(PROVIDER)!r}: name a lock that Lakehand sees, too. "
            "Without one, a writer that updates files under clustering would lose rows"
        )
    return {
        "hoodie.clustering.updates.strategy": ALLOW_UPDATES,
        "hoodie.write.lock.conflict.resolution.strategy": PREFER_WRITER,
        # If a clustering completed after this writer began, Spark's writer repeats the write.
        "hoodie.write.num.retries.on.conflict.failures": "4",
    }


def inline(plan: WriterPlan) -> dict[str, str]:
    """The writer does everything itself. Hudi runs plans that were left for Lakehand first."""
    options = {f"{MANAGER}.enabled": "false", f"{CALLBACK}.on": "false"}
    if plan.compacts:
        options["hoodie.compact.inline"] = "true"
        options["hoodie.compact.schedule.inline"] = "false"
        options["hoodie.compact.inline.max.delta.commits"] = str(plan.max_delta_commits)
    if "clustering" in plan.actions:
        options["hoodie.clustering.inline"] = "true"
        options["hoodie.clustering.schedule.inline"] = "false"
        options["hoodie.clustering.inline.max.commits"] = str(plan.max_commits)
    if "clean" in plan.actions:
        options["hoodie.clean.automatic"] = "true"
    return options


def locking(plan: WriterPlan) -> dict[str, str]:
    if not plan.lock:
        return {}
    lazy = "hoodie.clean.failed.writes.policy" if plan.version >= (1,) else "hoodie.cleaner.policy.failed.writes"
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        lazy: "LAZY",
        **plan.lock,
        **writer_wins(plan.lock),
    }


def flag(value: bool) -> str:
    return "true" if value else "false"


def checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"{url!r} is not the address of a service: use http://HOST:9091, and pass a token as token=..."
        )
    return url.rstrip("/")


def checked_actions(actions: Sequence[str]) -> tuple[str, ...]:
    wanted = tuple(actions.split(",")) if isinstance(actions, str) else tuple(actions)
    if unknown := [a for a in wanted if a not in ACTIONS]:
        raise ValueError(
            f"{unknown[0]!r} is not an action that a Hudi writer can leave to Lakehand: {', '.join(ACTIONS)}"
        )
    return wanted


def checked_table_type(name: str) -> str:
    if name not in TABLE_TYPES:
        raise ValueError(f"{name!r} is not a Hudi table type: {' or '.join(TABLE_TYPES)}")
    return name


def checked_index(name: str | None) -> Mapping[str, str]:
    if name and not re.fullmatch(r"\w+", name):
        raise ValueError(f"{name!r} is not an index of Hudi: use one of {', '.join(INDEXES)}, or a type such as SIMPLE")
    return INDEXES.get(name, {"hoodie.index.type": name.upper()}) if name else {}


def parsed_version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if not found:
        raise ValueError(f"{text!r} is not a Hudi version: for example 1.2.0")
    return tuple(int(part or 0) for part in found.groups())
