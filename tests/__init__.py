# SPDX-License-Identifier: Apache-2.0
"""The tests; they mirror the rooms of src/lakehand."""
