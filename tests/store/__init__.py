# SPDX-License-Identifier: Apache-2.0
"""The contract of the store, on every database."""
