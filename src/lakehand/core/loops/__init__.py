# SPDX-License-Identifier: Apache-2.0
"""The loops: one per file, and what they share. Each reads fresh state, and may run twice without harm."""
