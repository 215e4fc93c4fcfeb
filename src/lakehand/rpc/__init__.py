# SPDX-License-Identifier: Apache-2.0
"""gRPC: the operations of the REST API as ``lakehand.v1``, with streams of operations and events."""

from lakehand.rpc.context import RpcBounds, RpcContext, RpcMetrics
from lakehand.rpc.server import CertificateSource, RpcServer

__all__ = ["CertificateSource", "RpcBounds", "RpcContext", "RpcMetrics", "RpcServer"]
