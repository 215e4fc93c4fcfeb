# SPDX-License-Identifier: Apache-2.0
"""Options for people's own PySpark writers; standard library only, so that it can be copied to any cluster."""
