# SPDX-License-Identifier: Apache-2.0
"""An issuer for tests: real keys, signed tokens, and an HTTP server that publishes what a test says."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "lakehand"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def key(name: str) -> PrivateKey:
    """A key by its id; what it begins with says of which type it is. Making one takes long."""
    if name.startswith("ec384"):
        return ec.generate_private_key(ec.SECP384R1())
    if name.startswith("ec"):
        return ec.generate_private_key(ec.SECP256R1())
    if name.startswith("ed"):
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=1024 if name.startswith("short") else 2048)


def public(name: str, **changes: Any) -> dict[str, Any]:
    """The JSON web key of a key."""
    algorithm: Any = {"ec": ECAlgorithm, "ed": OKPAlgorithm}.get(name[:2], RSAAlgorithm)
    document: dict[str, Any] = algorithm.to_jwk(key(name).public_key(), as_dict=True)
    return {**document, "kid": name, "use": "sig", **changes}


@dataclass
class TestIssuer:
    __test__ = False
    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=lambda: [public("rsa"), public("ec")])
    configuration: dict[str, Any] = field(default_factory=dict)  # changes of the discovery document
    status: int = 200
    body: bytes | None = None  # instead of the keys
    gate: threading.Event = field(default_factory=threading.Event)  # answers wait for it
    asked: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

    def answer(self, path: str) -> tuple[int, bytes]:
        self.requests.append(path)
        self.asked.set()
        self.gate.wait(60)
        if path.startswith("/.well-known/"):
            return 200, json.dumps({"issuer": self.url, "jwks_uri": self.jwks_url} | self.configuration).encode()
        return self.status, json.dumps({"keys": self.keys}).encode() if self.body is None else self.body

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {
            "iss": self.url, "aud": AUDIENCE, "exp": now + 600, "iat": now, "sub": "4711",
            "preferred_username": "ada", "roles": ["lake-operators"],
        }  # fmt: skip
        return {name: value for name, value in (usual | changes).items() if value is not None}

    def token(self, name: str = "rsa", algorithm: str = "RS256", *, kid: str | None = "", **changes: Any) -> str:
        """A token, signed with a key; None leaves a claim or the id of the key out."""
        headers = {} if kid is None else {"kid": kid or name}
        return jwt.encode(self.claims(**changes), key(name), algorithm, headers=headers)


@contextmanager
def serve_issuer(certificate: trustme.LeafCert | None = None) -> Iterator[TestIssuer]:
    issuer = TestIssuer()
    issuer.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *values: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_details: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    issuer.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield issuer
    finally:
        issuer.gate.set()
        server.shutdown()
        server.server_close()
