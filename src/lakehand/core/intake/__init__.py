# SPDX-License-Identifier: Apache-2.0
"""What writers, catalogs and object stores send: notifications and commit events."""
