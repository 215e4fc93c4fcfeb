# SPDX-License-Identifier: Apache-2.0
"""The jobs of Paimon tables."""
