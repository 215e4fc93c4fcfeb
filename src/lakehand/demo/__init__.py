# SPDX-License-Identifier: Apache-2.0
"""The demo: a real service, real writers, and tables of five formats before and after."""
