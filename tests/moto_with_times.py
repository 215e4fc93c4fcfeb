# SPDX-License-Identifier: Apache-2.0
"""moto, with one thing more: an object whose metadata names a time was changed at that time.

S3 gives an object the time of its upload, and nobody can set it: without this, nothing in a test's bucket is ever old.
"""

from datetime import datetime, timezone
from typing import Any

from moto.s3.models import FakeKey

from lakehand.demo.s3_server import serve

MODIFIED = "modified"  # of the object's own metadata: seconds since the epoch


def believe_times() -> None:
    """The time is taken out of the metadata, so that a copy of the object is as young as anywhere."""
    set_metadata = FakeKey.set_metadata

    def set_with_time(key: Any, metadata: Any, replace: bool = False) -> None:
        given = metadata.pop(f"x-amz-meta-{MODIFIED}", None)
        set_metadata(key, metadata, replace)
        if given is not None:
            key.last_modified = datetime.fromtimestamp(float(given), timezone.utc).replace(
                tzinfo=None
            )  # as moto has it

    setattr(FakeKey, "set_metadata", set_with_time)  # noqa: B010 - mypy takes no other way


if __name__ == "__main__":
    believe_times()
    serve()
