# SPDX-License-Identifier: Apache-2.0
"""Tables whose versions are numbered files: the newest one by asking for the next by name.

On S3 a HEAD costs a twelfth of a listing, and a listing of many versions takes several requests.
"""

from collections.abc import Callable

from lakehand.storage.storages import ABSENT, Storage

MOST = 4  # versions that are asked for one by one; after more a listing is cheaper


def newest_after(storage: Storage, path_of: Callable[[int], str], known: int) -> tuple[int, str] | None:
    """The newest version and its sign, where ``known`` was the newest; None: only a listing tells.

    Two requests if nothing was committed since, or one version.
    """
    found = storage.sign(path_of(known + 1))
    if found == ABSENT:
        own = storage.sign(path_of(known))
        return None if own == ABSENT else (known, own)
    for version in range(known + 2, known + 2 + MOST):
        following = storage.sign(path_of(version))
        if following == ABSENT:
            return version - 1, found
        found = following
    return None
