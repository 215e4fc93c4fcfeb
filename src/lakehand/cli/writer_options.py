# SPDX-License-Identifier: Apache-2.0
"""lakehand hudi-options and delta-options: what writers need, for a version of Hudi or for Delta tables on S3."""

import json
import shlex
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from lakehand.cli.options import URL, CommandFailed, Url, pairs, words
from lakehand.output import print_error
from lakehand.writer import (
    INLINE,
    NUM,
    SERVICE,
    TABLE_TYPES,
    WRITER,
    delta_options,
    file_lock,
    hudi_options,
    storage_lock,
    table_properties,
)

SHORT = {"mor": TABLE_TYPES[0], "cow": TABLE_TYPES[1]}


def print_hudi_options(
    *,
    hudi_version: Annotated[str, typer.Option("--hudi-version", "-V", help="Hudi version of the writer.")] = "1.2.0",
    actions: Annotated[
        str, typer.Option(help="Actions that the writer leaves to Lakehand, comma separated.")
    ] = "compaction",
    table_type: Annotated[str, typer.Option(help="mor or cow.")] = "mor",
    database: Annotated[str | None, typer.Option(help="Database of the table.")] = None,
    owner: Annotated[str | None, typer.Option(help="Owner of the table (Hudi 1.2.1 and newer).")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue of its operations (Hudi 1.2.1 and newer).")] = None,
    resource: Annotated[
        str | None, typer.Option(help="Memory of an operation, such as 4g:4g (1.2.1 and newer).")
    ] = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Its parallelism (1.2.1 and newer).")] = None,
    extra_param: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of it (1.2.1 and newer); repeatable.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Its engine, such as spark-submit (1.2.1 and newer).")] = None,
    scheduling: Annotated[str, typer.Option(help="Who plans: writer or service.")] = WRITER,
    trigger: Annotated[
        str, typer.Option(help="When a compaction is planned: num, time, num-or-time or num-and-time.")
    ] = NUM,
    max_age: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="With a trigger by time: since the last compaction.")
    ] = None,
    wire_token: Annotated[str | None, typer.Option(help="The service's wire token, if it has one.")] = None,
    callback_key: Annotated[str | None, typer.Option(help="The service's callback key, if it has one.")] = None,
    max_delta_commits: Annotated[int, typer.Option(min=1, help="Plan a compaction after this many delta commits.")] = 5,
    max_commits: Annotated[int, typer.Option(min=1, help="Plan a clustering after this many commits.")] = 4,
    lock_folder: Annotated[
        str | None, typer.Option(help="Folder for a lock that writer and Lakehand both reach.")
    ] = None,
    in_bucket: Annotated[
        bool, typer.Option("--storage-lock", help="A lock in the table's own folder in a bucket; needs hudi-aws.")
    ] = False,
    lock: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A hoodie.write.lock option; repeatable.")
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="bucket (for new tables), record, or an index type of Hudi such as SIMPLE.")
    ] = None,
    inline: Annotated[
        bool, typer.Option("--inline", help="If the service does not answer, let the writer compact (needs a lock).")
    ] = False,
    format: Annotated[str, typer.Option("--format", "-f", help="properties, json or python.")] = "properties",
    url: Url = URL,
) -> None:
    """Print the options that connect a Hudi writer to this service."""
    if lock_folder and in_bucket:
        raise CommandFailed("--lock-folder is for disks and HDFS, --storage-lock for buckets: give one of them")
    locks = file_lock(lock_folder) if lock_folder else storage_lock() if in_bucket else {}
    locks |= pairs(lock or [], "--lock")
    wanted, by_service = words(actions), scheduling == SERVICE
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        options = hudi_options(
            url, hudi_version=hudi_version, actions=wanted, table_type=SHORT.get(table_type.lower(), table_type),
            database=database, owner=owner, queue=queue, resource=resource, parallelism=parallelism,
            extra_params=pairs(extra_param, "--extra-param"), engine=engine, token=wire_token,
            callback_key=callback_key, scheduling=scheduling, trigger=NUM if by_service else trigger,
            max_delta_commits=max_delta_commits, max_age=None if by_service else max_age, max_commits=max_commits,
            lock=locks, index=index, fallback=INLINE if inline else None,
        )  # fmt: skip
    for warning in warned:
        print_error(f"warning: {warning.message}")
    if by_service or "clean" in wanted:
        properties = table_properties(
            lock=locks, actions=wanted, trigger=trigger, max_delta_commits=max_delta_commits, max_age=max_age,
            max_commits=max_commits, index=index,
        )  # fmt: skip
        command = add_table(wanted, properties)
        print_error(f"register the table as these options expect (`change` if it is registered): {command}")
    print(render(options, format, ("properties", "json", "python")))


def add_table(actions: Sequence[str], properties: Mapping[str, str]) -> str:
    """The command that registers a table which the service plans for; the reader names the table."""
    set_to = [word for key, value in properties.items() for word in ("--property", f"{key}={value}")]
    return shlex.join(
        ["lakehand", "tables", "add", "TABLE", "--actions", ",".join(actions), "--scheduling", SERVICE, *set_to]
    )


def print_delta_options(
    *,
    region: Annotated[str, typer.Option(help="AWS region of the DynamoDB table.")],
    table: Annotated[str, typer.Option(help="DynamoDB table that says which commit was first.")] = "delta_log",
    format: Annotated[str, typer.Option("--format", "-f", help="properties, json or toml.")] = "properties",
) -> None:
    """Print the settings for all who commit to Delta tables on S3: writers, and [spark] of lakehand.toml."""
    print(render(delta_options(region=region, table=table), format, ("properties", "json", "toml")))


def render(options: dict[str, str], format: str, known: tuple[str, str, str]) -> str:
    if format not in known:
        raise CommandFailed(f"--format {format!r} is not known: use {known[0]}, {known[1]} or {known[2]}")
    quoted = [(json.dumps(key), json.dumps(value)) for key, value in options.items()]
    if format == "json":
        return json.dumps(options, indent=2)
    if format == "toml":
        return "\n".join(["[spark]", *(f"{key} = {value}" for key, value in quoted)])
    if format == "python":
        lines = [f"    {key}: {value}," for key, value in quoted]
        return "\n".join(["options = {", *lines, "}", "", "frame.write.format('hudi').options(**options)"])
    return "\n".join(f"{key}={value}" for key, value in options.items())
