# SPDX-License-Identifier: Apache-2.0
"""The contract suites, published: subclass them in your tests to prove a plugin against what the service relies on."""
