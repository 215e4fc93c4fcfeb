# SPDX-License-Identifier: Apache-2.0
"""Deletes tags whose time is over, with the files that only they keep; never one that was changed or a branch needs.

Paimon 0.9 has no procedure for it, and its own deletion of a tag knows nothing of branches.
"""

import hashlib
import json
import re
from calendar import timegm
from contextlib import closing
from typing import Any, NamedTuple

from lakehand.jobs.job import Job
from lakehand.jobs.paimon.outside import TableGuard, refuse_odd_names
from lakehand.jobs.paimon.references import ChangelogNames, delta_lists, roots
from lakehand.jobs.paimon.remove_orphans import delete
from lakehand.jobs.paimon.tables import target_of
from lakehand.jobs.paimon.tag_files import files_only_of
from lakehand.jobs.safety import BelowFloor, UnsafeRequest, cut_off, would_delete
from lakehand.jobs.spark import list_folder, read_file

LEAST_HOURS = 24  # after its time is over, whatever the parameters say
LEAST_AUTOMATIC = 7
NUMBER = "number"  # why an automatic tag goes; all others have a time of their own
_AUTOMATIC = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}( [0-9]{2})?")


class AskedTag(NamedTuple):
    name: str
    sign: str
    why: str

    @property
    def file(self) -> str:
        return f"tag-{self.name}"


def run(job: Job) -> dict[str, Any]:
    work = TagDeletion(job)
    for tag in asked_tags(job.parameters):
        job.check()
        job.phase(f"reading what only the tag {tag.name} keeps")
        work.handle(tag)
    return work.report()


class TagDeletion:
    """One tag after the other: what only it keeps is known before it goes."""

    def __init__(self, job: Job) -> None:
        self.job, self.guard = job, TableGuard(job, target_of(job))
        self.is_dry = job.parameters.get("dry_run") is True
        self.changelogs = ChangelogNames(self.guard)
        self.gone: set[str] = set()
        self.kept: dict[str, str] = {}
        self.listed: list[str] = []
        self.deleted_files = 0

    def handle(self, tag: AskedTag) -> None:
        table = self.guard.check()
        if self.is_kept(table, tag):
            return
        files = files_only_of(self.guard, table, tag.name, self.gone, self.changelogs)
        self.job.boundary.refuse_outside(files, doing="delete")
        if self.is_dry:
            self.gone.add(tag.name)
            self.listed += [str(table.tagManager().tagPath(tag.name).toString()), *files]
        else:
            self.delete(tag, files)

    def delete(self, tag: AskedTag, files: list[str]) -> None:
        """The tag first: files that a killed attempt leaves belong to nobody, and are found as orphans."""
        self.job.check()
        self.job.phase(f"deleting the tag {tag.name}")
        table = self.guard.check()
        if self.is_kept(table, tag):
            return
        delete_tag(table, tag.name)
        self.gone.add(tag.name)
        self.job.note("deleted_tags", sorted(self.gone))
        paths = self.guard.target.jvm.org.apache.paimon.fs.Path
        self.deleted_files += delete(self.job, table, [paths(one) for one in files])

    def is_kept(self, table: Any, tag: AskedTag) -> bool:
        why = why_kept(self.job, table, tag)
        self.kept.update({tag.name: why} if why else {})
        return bool(why)

    def report(self) -> dict[str, Any]:
        if self.is_dry:
            return {**would_delete(self.listed), "would_expire": sorted(self.gone), "kept": self.kept}
        return {"deleted_tags": sorted(self.gone), "deleted_files": self.deleted_files, "kept": self.kept}


def asked_tags(parameters: dict[str, Any]) -> list[AskedTag]:
    try:
        tags = [AskedTag(str(one["name"]), str(one["sign"]), str(one["why"])) for one in parameters["tags"]]
    except (KeyError, TypeError) as error:
        raise UnsafeRequest(f"the work does not say which tags to delete: {error!r}") from None
    refuse_odd_names((tag.file for tag in tags), "the work")
    return tags


def why_kept(job: Job, table: Any, tag: AskedTag) -> str:
    """Why a tag stays; empty: it may go. Raises when it is one that must never go."""
    folder = f"{job.boundary.real}/tag"
    there = [one.name for one in list_folder(job.session, folder)]
    if tag.file not in there:
        return "it is gone already"
    data = read_file(job.session, f"{folder}/{tag.file}")
    if hashlib.sha256(data).hexdigest() != tag.sign:
        return "somebody has changed it since"
    document = json.loads(data)
    refuse_young(tag, document, there)
    for branch in table.branchManager().branches():
        if str(document.get("deltaManifestList")) in delta_lists(roots(table.switchToBranch(branch))):
            return f"the branch {branch} began there"
    return ""


def refuse_young(tag: AskedTag, document: dict[str, Any], there: list[str]) -> None:
    if tag.why == NUMBER:
        newer = [one for one in there if one > tag.file and _AUTOMATIC.fullmatch(one.removeprefix("tag-"))]
        if "tagTimeRetained" in document or not _AUTOMATIC.fullmatch(tag.name) or len(newer) < LEAST_AUTOMATIC:
            raise BelowFloor(f"the tag {tag.name} is no automatic one, or among the last {LEAST_AUTOMATIC}")
        cut_off(int(document["timeMillis"]), LEAST_HOURS)
        return
    created, retained = document.get("tagCreateTime"), document.get("tagTimeRetained")
    if not isinstance(created, list) or not isinstance(retained, (int, float)):
        raise BelowFloor(f"the tag {tag.name} has no time of its own: it is never deleted")
    began = timegm((*created, 0, 0, 0)[:9])
    cut_off(int((began + retained) * 1000), LEAST_HOURS)


def delete_tag(table: Any, name: str) -> None:
    """With the callbacks of the table, as Paimon does it."""
    table.fileIO().delete(table.tagManager().tagPath(name), False)
    for callback in table.store().createTagCallbacks():
        with closing(callback):
            callback.notifyDeletion(name)
