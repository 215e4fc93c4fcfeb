# SPDX-License-Identifier: Apache-2.0
"""The HTTP faces: the API and the Hudi wire."""
