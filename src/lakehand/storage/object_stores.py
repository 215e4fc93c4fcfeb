# SPDX-License-Identifier: Apache-2.0
"""How to reach a bucket: endpoint, region and credentials, said once for all readers and engines.

The keys are those of Iceberg's file IO (``s3.endpoint``); ``s3.bucket.NAME.endpoint`` counts for one bucket.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

S3 = "s3"
BUCKET = "s3.bucket."
SECONDS_TO_CONNECT, SECONDS_TO_ANSWER, ATTEMPTS = 10.0, 60.0, 8  # throttled requests are repeated with back-off


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """Empty: as the client finds it by itself (environment, profile, role of the machine)."""

    endpoint: str = ""
    region: str = ""
    path_style_access: str = ""  # "true", "false"
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @property
    def is_http(self) -> bool:
        return self.endpoint.lower().startswith("http://")

    @property
    def is_path_style(self) -> bool:
        """A store of one's own has no host name per bucket, unless it is said to have."""
        return self.path_style_access.lower() == "true" if self.path_style_access else bool(self.endpoint)


NAMES = tuple(S3Options.__dataclass_fields__)


def s3_options(properties: Mapping[str, str], bucket: str = "") -> S3Options:
    """What counts for a bucket; without one, for all that have nothing of their own."""
    found = {}
    for name in NAMES:
        key = name.replace("_", "-")
        value = properties.get(f"{BUCKET}{bucket}.{key}") if bucket else None
        found[name] = value if value is not None else properties.get(f"{S3}.{key}", "")
    return S3Options(**found)


def buckets_in(properties: Mapping[str, str]) -> list[str]:
    """The buckets with something of their own. A bucket's name may have dots in it."""
    return sorted({key.removeprefix(BUCKET).rpartition(".")[0] for key in properties if key.startswith(BUCKET)})


def lance_options(properties: Mapping[str, str], location: str) -> dict[str, str]:
    """As the storage client of Lance names them; empty where the location is in no S3 bucket."""
    scheme, _, rest = location.partition("://")
    if scheme not in (S3, "s3a", "s3n"):
        return {}
    options = s3_options(properties, rest.partition("/")[0])
    named = {
        "aws_endpoint": options.endpoint,
        "aws_region": options.region,
        "aws_access_key_id": options.access_key_id,
        "aws_secret_access_key": options.secret_access_key,
        "aws_session_token": options.session_token,
        "aws_virtual_hosted_style_request": "true" if options.path_style_access == "false" else "",
        "allow_http": "true" if options.is_http else "",
    }
    return {key: value for key, value in named.items() if value}
