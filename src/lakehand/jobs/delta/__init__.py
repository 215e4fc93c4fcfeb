# SPDX-License-Identifier: Apache-2.0
"""The Delta jobs: each runs one statement of Delta's, with the operation tag in the commits that it makes."""
