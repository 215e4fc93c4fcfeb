# SPDX-License-Identifier: Apache-2.0
"""Commit events over HTTP: CloudEvents, notifications of S3 in their envelopes, events of Iceberg catalogs."""

from lakehand.rest.commits.handler import PATH, CommitEvents, CommitHandler, router

__all__ = ["PATH", "CommitEvents", "CommitHandler", "router"]
