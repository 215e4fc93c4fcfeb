# SPDX-License-Identifier: Apache-2.0
"""The tests; they mirror the packages of src/lakehand."""
