# SPDX-License-Identifier: Apache-2.0
"""Reading files where tables live. Public: outside plugins may use it as ours do."""

from lakehand.storage.storages import ArrowStorage, Entry, LocalStorage, Storage, Storages

__all__ = ["ArrowStorage", "Entry", "LocalStorage", "Storage", "Storages"]
