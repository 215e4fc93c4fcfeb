# SPDX-License-Identifier: Apache-2.0
"""Runs migrations on the connection that ``lakehand.store.migrate`` brings; transactions and locks are its care."""

from alembic import context

from lakehand.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, compare_type=True)
context.run_migrations()
