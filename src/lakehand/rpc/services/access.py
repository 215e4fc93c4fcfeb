# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the caller, tokens, and the audit trail."""

from lakehand.api.access import AuditQuery, TokenRequest, audit_answer
from lakehand.domain.access import AuditEntry, TokenId
from lakehand.rpc.context import Call
from lakehand.rpc.generated import access_pb2 as pb
from lakehand.rpc.messages import fill, id_of, read


def get_caller(call: Call, _request: pb.GetCallerRequest) -> pb.GetCallerResponse:
    return fill(pb.GetCallerResponse(), caller=call.caller)


def list_tokens(call: Call, _request: pb.ListTokensRequest) -> pb.ListTokensResponse:
    return fill(pb.ListTokensResponse(), tokens=call.services.access.list_tokens(call.caller))


def create_token(call: Call, request: pb.CreateTokenRequest) -> pb.CreateTokenResponse:
    made = call.services.access.create_token(call.caller, read(TokenRequest, request))
    return fill(pb.CreateTokenResponse(), made, token=made)


def revoke_token(call: Call, request: pb.RevokeTokenRequest) -> pb.RevokeTokenResponse:
    revoked = call.services.access.revoke_token(call.caller, TokenId(id_of(request)))
    return fill(pb.RevokeTokenResponse(), token=revoked)


def list_audit(call: Call, request: pb.ListAuditRequest) -> pb.ListAuditResponse:
    page = call.services.audit.list(call.caller, read(AuditQuery, request))
    return pb.ListAuditResponse(entries=map(entry_message, page.items), next_page_token=page.next or "")


def entry_message(entry: AuditEntry) -> pb.AuditEntry:
    unknown = {} if entry.answer else {"after": None}
    return fill(pb.AuditEntry(), audit_answer(entry), **unknown)
