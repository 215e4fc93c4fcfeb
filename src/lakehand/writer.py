# SPDX-License-Identifier: Apache-2.0
"""Options for users' own PySpark writers; standard library only, so that it can be copied to any cluster."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

CLIENT_WORKS_SINCE = (1, 2, 1)  # older clients fail before they send anything
HEARTBEATS_SINCE = (1, 2, 0)  # older writers compact without a heartbeat, and roll back a compaction that somebody runs
COUNTS_COMMITS_SINCE = (1, 0, 0)  # older ones plan a clustering at each commit that finds none pending
MERGE_ON_READ = "MERGE_ON_READ"
COPY_ON_WRITE = "COPY_ON_WRITE"
TABLE_TYPES = (MERGE_ON_READ, COPY_ON_WRITE)
ACTIONS = ("compaction", "clustering", "clean")
INLINE = "inline"
WRITER, SERVICE = "writer", "service"
SCHEDULING = (WRITER, SERVICE)
NUM = "num"
# Hudi's words; the same in all versions from 0.14 to 1.2.
TRIGGERS: Mapping[str, str] = {
    NUM: "NUM_COMMITS", "time": "TIME_ELAPSED", "num-or-time": "NUM_OR_TIME", "num-and-time": "NUM_AND_TIME",
}  # fmt: skip

MANAGER = "hoodie.table.service.manager"
CALLBACK = "hoodie.write.commit.callback"
PROVIDER = "hoodie.write.lock.provider"
FAIL_WRITES = "hoodie.fail.writes.on.inline.table.service.exception"
NOT_SENT = (
    "only Hudi's client sends this, from 1.2.1 on and where the writer plans; an owner and a queue can be the table's "
    "own, by `lakehand tables change`"
)
ALLOW_UPDATES = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
PREFER_WRITER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
NO_LOCK = (
    "clustering without lock=...: Hudi refuses this writer's updates of files that a pending clustering plan names, "
    "until the plan has run. With a lock that Lakehand shares, as lock=file_lock(folder), the writer always wins"
)
LOCKS = "lock=file_lock(folder) on disks and HDFS, lock=storage_lock() in buckets"
NO_LOCK_TO_PLAN = f"the service plans beside this writer only under a lock that both use: pass {LOCKS}"
NO_LOCK_TO_CLEAN = (
    "a writer that leaves a clean plan runs it at its next commit, whoever was asked to. So Lakehand plans cleans, "
    f"under the table's lock: pass {LOCKS}, or leave clean to the writer"
)
NO_LOCK_TO_FALL_BACK = (
    "fallback without lock=...: when Lakehand is back while this writer compacts, both run the same plan, and it is "
    f"completed twice. With a lock Hudi lets one of them run it: pass {LOCKS}"
)
TOO_OLD_TO_FALL_BACK = (
    "fallback needs Hudi 1.2.0 or newer: older writers keep no heartbeat of a compaction and do not look for one, so "
    "that they roll back what Lakehand's driver may still be running. Without fallback, plans wait for the service"
)
NO_ASYNC = (
    'fallback="async": Hudi compacts asynchronously in structured streaming alone, and such a query fails when '
    f'Lakehand is back and runs the same plan; a batch writer would compact nothing. Use "{INLINE}", or leave it out'
)
NOTHING_TO_FALL_BACK_TO = (
    "fallback is for compactions of merge-on-read tables. Clusterings and cleans wait for the service: Hudi keeps no "
    "heartbeat of them, so that a writer would roll back what Lakehand's driver may still be running"
)
NO_TIME = (
    "Hudi's writers plan compactions of merge-on-read tables by time, and clusterings and cleans by the number of "
    f'commits alone (hoodie.clean.trigger.strategy has no other value). With scheduling="{SERVICE}", the service plans '
    "all of them by time"
)
CLUSTERS_BY_NUMBER = "the trigger is for compactions: Hudi plans clusterings by the number of commits alone"
COUNTS_NOTHING = (
    "Hudi before 1.0 does not count commits for hoodie.clustering.schedule.inline: this writer plans a clustering at "
    f'each commit that finds none pending. With scheduling="{SERVICE}", Lakehand plans after as many commits as it is '
    "told"
)
CLUSTERED_BUCKETS = (
    'clustering of a table with index="bucket": Hudi finds a bucket by the names of its files, which a clustering does '
    'not keep, and the next write fails. Leave clustering out, or use index="record"'
)
NO_INDEX = (
    "compaction of a merge-on-read table without index=...: Hudi's default index looks only into base files. A key "
    "that was deleted, and comes back while a compaction plan is pending, can become two rows or lose its next delete. "
    'index="bucket" (for new tables) and index="record" have no such keys; index="SIMPLE" keeps the default'
)
# A record index takes a key for the same in all partitions. Both its switch and its type are needed: with the switch
# alone the writer keeps the index and looks elsewhere, and readers who ask for a key do not find it.
INDEX_TYPE = "hoodie.index.type"
INDEXES: Mapping[str, Mapping[str, str]] = {
    "bucket": {INDEX_TYPE: "BUCKET"},
    "record": {INDEX_TYPE: "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"},
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
    resource: str | None = None,
    parallelism: int | None = None,
    extra_params: Mapping[str, str] | None = None,
    engine: str | None = None,
    token: str | None = None,
    callback_key: str | None = None,
    scheduling: str = WRITER,
    trigger: str = NUM,
    max_delta_commits: int = 5,
    max_age: int | None = None,
    max_commits: int = 4,
    lock: Mapping[str, str] | None = None,
    index: str | None = None,
    fallback: str | None = None,
    timeout: float = 2.0,
) -> dict[str, str]:
    """The options of a Hudi writer that leaves ``actions`` to the Lakehand at ``url``, for ``.options(**...)``.

    From Hudi 1.2.1 on the writer asks Lakehand itself; older ones report each commit and leave their plans on the
    timeline. With ``scheduling="service"`` the writer only commits, and reports that: the service plans, under the
    lock. ``max_delta_commits`` says how often a compaction is planned, ``max_commits`` a clustering. ``trigger`` is
    "num", "time", "num-or-time" or "num-and-time": the number of delta commits, or ``max_age`` seconds since the last
    compaction, or either, or both; Hudi looks at its commits only.

    ``owner``, ``queue``, ``resource``, ``parallelism``, ``extra_params`` and ``engine`` of the operations are sent by
    Hudi's client alone, from 1.2.1 on.

    ``lock`` are the table's ``hoodie.write.lock.*`` options, see ``file_lock``. With a lock this writer wins against a
    clustering of the same files; without one Hudi refuses its updates while a clustering plan is pending, and a warning
    says so. ``index`` is "bucket" (for new tables), "record", or an index type of Hudi. With the default one, keys that
    come back after a delete can become two rows beside a pending compaction plan, and a warning says so.

    With ``fallback="inline"`` (Hudi 1.2.0 and newer, with a lock) the service is contacted first, for at most
    ``timeout`` seconds: if it does not answer, the writer compacts by itself, pending plans first.
    """
    plan = WriterPlan(
        url=checked_url(url), version=parsed_version(hudi_version), actions=checked_actions(actions),
        table_type=checked_table_type(table_type), owner=owner, queue=queue, resource=resource, parallelism=parallelism,
        extra_params=extra_params or {}, engine=engine, token=token, callback_key=callback_key,
        scheduling=checked_word("scheduling", scheduling, SCHEDULING),
        trigger=checked_word("trigger", trigger, tuple(TRIGGERS)), max_delta_commits=max_delta_commits, max_age=max_age,
        max_commits=max_commits, lock=lock or {}, index=checked_index(index),
    )  # fmt: skip
    check_trigger(plan)
    if "clustering" in plan.actions and plan.index.get(INDEX_TYPE) == "BUCKET":
        raise ValueError(CLUSTERED_BUCKETS)
    if scheduling == SERVICE and not lock:
        raise ValueError(NO_LOCK_TO_PLAN)
    away = checked_fallback(plan, fallback) == INLINE and not is_ready(url, timeout=timeout)
    named = {"hoodie.database.name": database} if database else {}
    return {**named, **(inline(plan) if away else connected(plan)), **plan.index, **locking(plan)}


def table_properties(
    *,
    lock: Mapping[str, str],
    actions: Sequence[str] = ("compaction",),
    trigger: str = NUM,
    max_delta_commits: int = 5,
    max_age: int | None = None,
    max_commits: int = 4,
    index: str | None = None,
) -> dict[str, str]:
    """What the table of such a writer is registered with where the service plans: its lock, its index, and when."""
    check_age(checked_word("trigger", trigger, tuple(TRIGGERS)), max_age)
    numbers = {"compaction": {"delta-commits": max_delta_commits}, "clustering": {"commits": max_commits}}
    times = {} if trigger == NUM else {"trigger": trigger, "max-age": f"{max_age}s"}
    when = {
        f"hudi.{action}.{key}": str(value)
        for action in checked_actions(actions)
        for key, value in {**numbers.get(action, {}), **times}.items()
    }
    kind = {key: value for key, value in checked_index(index).items() if key == INDEX_TYPE}
    return {**lock, "hoodie.clean.failed.writes.policy": "LAZY", **when, **kind}


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
    resource: str | None = None
    parallelism: int | None = None
    extra_params: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None
    token: str | None = None
    callback_key: str | None = None
    scheduling: str = WRITER
    trigger: str = NUM
    max_delta_commits: int = 5
    max_age: int | None = None
    max_commits: int = 4
    lock: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, str] = field(default_factory=dict)

    @property
    def compacts(self) -> bool:
        return "compaction" in self.actions and self.table_type == MERGE_ON_READ

    @property
    def uses_client(self) -> bool:
        """Whether Hudi's own client is used. It sends nothing unless compaction is among its actions."""
        sends = "compaction" in self.actions or ("clustering" in self.actions and self.table_type == COPY_ON_WRITE)
        return self.version >= CLIENT_WORKS_SINCE and self.scheduling == WRITER and sends

    @property
    def deploy(self) -> dict[str, str]:
        """What the client asks for its operations."""
        extra = ";".join(f"{key}={checked_extra(value)}" for key, value in self.extra_params.items())
        wanted = {
            "deploy.username": self.owner, "deploy.queue": self.queue, "deploy.resources": self.resource,
            "deploy.parallelism": self.parallelism, "deploy.extra.params": extra, "execution.engine": self.engine,
        }  # fmt: skip
        return {f"{MANAGER}.{key}": str(value) for key, value in wanted.items() if value}


def connected(plan: WriterPlan) -> dict[str, str]:
    if plan.deploy and not plan.uses_client:
        warnings.warn(f"{', '.join(plan.deploy)}: {NOT_SENT}", stacklevel=3)
    if plan.scheduling == SERVICE:
        notifying = {f"{MANAGER}.enabled": "false", **commit_callback(plan)}
    else:
        notifying = manager_client(plan) if plan.uses_client else commit_callback(plan)
    return {**notifying, **compaction(plan), **clustering(plan), **clean(plan)}


def manager_client(plan: WriterPlan) -> dict[str, str]:
    if urlsplit(plan.url).path:
        raise ValueError(f"Hudi's client drops the path of {plan.url}: give Lakehand a host and port of its own")
    named = [a for a in ("compaction", "clustering") if a in plan.actions or a == "compaction"]
    return {
        f"{MANAGER}.enabled": "true",
        f"{MANAGER}.uris": f"{plan.url}/?token={quote(plan.token, safe='')}" if plan.token else plan.url,
        f"{MANAGER}.actions": ",".join(named),
        f"{MANAGER}.connection.timeout.sec": "10",
        # The client calls after the commit: a service that does not answer must not fail the writer.
        FAIL_WRITES: "false",
        **plan.deploy,
    }


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
    plans = plan.scheduling == WRITER
    return {
        # With the client on, "inline" sends a request after every commit, which repeats a lost one.
        "hoodie.compact.inline": flag(plan.uses_client),
        "hoodie.compact.schedule.inline": flag(plans and not plan.uses_client),
        **(compaction_trigger(plan) if plans else {}),
        "hoodie.datasource.compaction.async.enable": "false",
    }


def compaction_trigger(plan: WriterPlan) -> dict[str, str]:
    by_number = {"hoodie.compact.inline.max.delta.commits": str(plan.max_delta_commits)}
    if plan.trigger == NUM:
        return by_number
    return {
        "hoodie.compact.inline.trigger.strategy": TRIGGERS[plan.trigger],
        "hoodie.compact.inline.max.delta.seconds": str(plan.max_age),
        **(by_number if plan.trigger.startswith(NUM) else {}),
    }


def clustering(plan: WriterPlan) -> dict[str, str]:
    if "clustering" not in plan.actions:
        return {}
    if not plan.lock:
        warnings.warn(NO_LOCK, stacklevel=4)
    if plan.uses_client:
        # As with compaction: nothing runs, and each commit sends all pending plans.
        return {
            "hoodie.clustering.inline": "true",
            "hoodie.clustering.inline.max.commits": str(plan.max_commits),
            "hoodie.clustering.schedule.inline": "false",
            "hoodie.clustering.async.enabled": "false",
        }
    return clustering_plans(plan)


def clustering_plans(plan: WriterPlan) -> dict[str, str]:
    """Plans, and nothing else; with service scheduling not even those."""
    plans = plan.scheduling == WRITER
    if plans and plan.version < COUNTS_COMMITS_SINCE:
        warnings.warn(COUNTS_NOTHING, stacklevel=5)
    return {
        "hoodie.clustering.inline": "false",
        "hoodie.clustering.async.enabled": "false",
        "hoodie.clustering.schedule.inline": flag(plans),
        **({"hoodie.clustering.async.max.commits": str(plan.max_commits)} if plans else {}),
    }


def clean(plan: WriterPlan) -> dict[str, str]:
    if "clean" not in plan.actions:
        return {}
    if not plan.lock:
        raise ValueError(NO_LOCK_TO_CLEAN)
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
    """The writer compacts by itself, and runs plans that were left for Lakehand first. All else waits.

    A driver of Lakehand may still be at work. Hudi refuses a compaction while another runner's heartbeat of it is
    fresh, and the writer goes on; clusterings and cleans have no such heartbeat.
    """
    return {
        f"{MANAGER}.enabled": "false",
        f"{CALLBACK}.on": "false",
        "hoodie.compact.inline": "true",
        "hoodie.compact.schedule.inline": "false",
        **compaction_trigger(plan),
        "hoodie.datasource.compaction.async.enable": "false",
        FAIL_WRITES: "false",
        **(clustering_plans(plan) if "clustering" in plan.actions else {}),
        **clean(plan),
    }


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


def checked_word(what: str, word: str, known: Sequence[str]) -> str:
    if word not in known:
        raise ValueError(f"{what} is {word!r}: use one of {', '.join(known)}")
    return word


def checked_extra(value: str) -> str:
    if ";" in value:
        raise ValueError(f"extra_params has the value {value!r}: Hudi's client separates parameters by semicolons")
    return value


def check_age(trigger: str, max_age: int | None) -> None:
    if (max_age is None) != (trigger == NUM):
        raise ValueError(f"trigger is {trigger!r} and max_age {max_age}: each trigger by time needs seconds")


def check_trigger(plan: WriterPlan) -> None:
    check_age(plan.trigger, plan.max_age)
    if plan.trigger == NUM:
        return
    if plan.scheduling == SERVICE:
        raise ValueError("this writer plans nothing: trigger and age belong to its table, see table_properties(...)")
    if not plan.compacts:
        raise ValueError(NO_TIME)
    if "clustering" in plan.actions:
        warnings.warn(CLUSTERS_BY_NUMBER, stacklevel=3)


def checked_fallback(plan: WriterPlan, fallback: str | None) -> str | None:
    if fallback not in (None, INLINE):
        raise ValueError(
            NO_ASYNC if fallback == "async" else f'fallback is {fallback!r}: use "{INLINE}", or leave it out'
        )
    if fallback and not plan.compacts:
        raise ValueError(NOTHING_TO_FALL_BACK_TO)
    if fallback and plan.version < HEARTBEATS_SINCE:
        raise ValueError(TOO_OLD_TO_FALL_BACK)
    if fallback and not plan.lock:
        raise ValueError(NO_LOCK_TO_FALL_BACK)
    return fallback


def checked_table_type(name: str) -> str:
    if name not in TABLE_TYPES:
        raise ValueError(f"{name!r} is not a Hudi table type: {' or '.join(TABLE_TYPES)}")
    return name


def checked_index(name: str | None) -> Mapping[str, str]:
    if name and not re.fullmatch(r"\w+", name):
        raise ValueError(f"{name!r} is not an index of Hudi: use one of {', '.join(INDEXES)}, or a type such as SIMPLE")
    return INDEXES.get(name, {INDEX_TYPE: name.upper()}) if name else {}


def parsed_version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if not found:
        raise ValueError(f"{text!r} is not a Hudi version: for example 1.2.0")
    return tuple(int(part or 0) for part in found.groups())
