# SPDX-License-Identifier: Apache-2.0
"""What people and programs may ask for, for every interface."""
