# SPDX-License-Identifier: Apache-2.0
"""Why a job stops before it does harm."""


class BelowFloor(Exception):
    """The parameters ask for less than must be kept."""


class ImplausibleShare(Exception):
    """So many files look like orphans that the metadata is more likely wrong than the files."""


class MetadataUnreadable(Exception):
    """Not everything that refers to files could be read, so that no file can be called an orphan."""
