# SPDX-License-Identifier: Apache-2.0
"""Measurements of the whole service, side by side with what they are compared with: ``python -m bench``."""
