# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the caller, tokens, and the audit trail."""

from datetime import timedelta

from lakehand.core.ports import AuditFilter
from lakehand.domain.access import AuditEntry, TokenId
from lakehand.inputs.access import AuditQuery, TokenRequest
from lakehand.rpc.context import Call
from lakehand.rpc.generated import access_pb2 as pb
from lakehand.rpc.messages import fill, id_of, read


def get_caller(call: Call, _request: pb.GetCallerRequest) -> pb.GetCallerResponse:
    return fill(pb.GetCallerResponse(), caller=call.caller)


def list_tokens(call: Call, _request: pb.ListTokensRequest) -> pb.ListTokensResponse:
    return fill(pb.ListTokensResponse(), tokens=call.context.requests.tokens.list(call.caller))


def create_token(call: Call, request: pb.CreateTokenRequest) -> pb.CreateTokenResponse:
    new = read(TokenRequest, request)
    life = None if new.life is None else timedelta(seconds=new.life)
    token, secret = call.context.requests.tokens.create(call.caller, new.name, new.role, owner=new.owner, life=life)
    return fill(pb.CreateTokenResponse(), token=token, secret=secret)


def revoke_token(call: Call, request: pb.RevokeTokenRequest) -> pb.RevokeTokenResponse:
    return fill(
        pb.RevokeTokenResponse(), token=call.context.requests.tokens.revoke(call.caller, TokenId(id_of(request)))
    )


def list_audit(call: Call, request: pb.ListAuditRequest) -> pb.ListAuditResponse:
    query = read(AuditQuery, request)
    wanted = AuditFilter(**query.filters())
    page = call.context.requests.list_audit(call.caller, wanted, limit=query.limit, cursor=query.cursor)
    return pb.ListAuditResponse(entries=map(entry_message, page.items), next_page_token=page.next or "")


def entry_message(entry: AuditEntry) -> pb.AuditEntry:
    asked, answer = entry.request, entry.answer
    answered = {"answer": answer.code, "message": answer.message, "after": answer.after} if answer else {}
    unknown = {"answer": None, "message": None, "after": None}
    return fill(pb.AuditEntry(), asked.caller, asked, entry, caller=asked.caller.name, **(answered or unknown))
