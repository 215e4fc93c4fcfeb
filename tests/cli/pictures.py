# SPDX-License-Identifier: Apache-2.0
"""Pictures of tables that never were."""

from lakehand.cli.demo.picture import Files, Picture


def a_picture(*, files: int, pending: int = 0, checksum: str = "same") -> Picture:
    counted = Files(stored=files, bytes=1000, base_opened=files, logs_opened=0, pending=pending)
    return Picture(files=counted, rows=10, checksum=checksum, seconds=0.1)
