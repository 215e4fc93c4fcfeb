# SPDX-License-Identifier: Apache-2.0
"""The settings of object stores: said once, and given to readers, Spark and catalogs alike."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, SecretStr

from lakehand.app.setting_types import setting
from lakehand.app.telemetry_settings import Address

S3_SCHEMES = ("s3", "s3a", "s3n")
# What Iceberg calls the same things in the properties of a catalog.
CATALOG_NAMES = {"s3.region": "client.region"}
# Asks a REST catalog for credentials or signatures with each table. Our reader asks for the first by itself.
DELEGATION, DELEGATED = "header.X-Iceberg-Access-Delegation", "vended-credentials,remote-signing"
FILE_IO = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}


class BucketSettings(BaseModel, extra="forbid"):
    endpoint: Address | None = setting(None, "Address of the store; none: AWS.")
    region: str | None = setting(None, "Region of the buckets.")
    path_style_access: bool | None = setting(None, "Bucket in the path. Default: with an endpoint, yes.")
    access_key_id: SecretStr | None = setting(None, "Key; none: environment, profile or role of the machine.")
    secret_access_key: SecretStr | None = setting(None, "Its secret.")
    session_token: SecretStr | None = setting(None, "Token of temporary credentials.")

    def properties(self, prefix: str) -> Iterator[tuple[str, str]]:
        for name, value in self:
            if name in BucketSettings.model_fields and value not in (None, ""):
                text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
                yield f"{prefix}{name.replace('_', '-')}", text.lower() if isinstance(value, bool) else text


def paired(one: BucketSettings) -> BucketSettings:
    if (one.access_key_id is None) != (one.secret_access_key is None):
        raise ValueError("access_key_id and secret_access_key belong together: set both, or none")
    return one


class S3Settings(BucketSettings):
    buckets: dict[str, Annotated[BucketSettings, AfterValidator(paired)]] = setting(
        {}, "What differs for one bucket: `[storage.s3.buckets.NAME]`."
    )


class StorageSettings(BaseModel, extra="forbid"):
    s3: Annotated[S3Settings, AfterValidator(paired)] = setting(S3Settings(), "S3, and stores with the same API.")

    def properties(self) -> dict[str, str]:
        """For readers and engines. They hold secrets."""
        found = dict(self.s3.properties("s3."))
        for name, one in self.s3.buckets.items():
            found |= one.properties(f"s3.bucket.{name}.")
        return found

    def rest_properties(self, warehouse: str, said: Collection[str]) -> Mapping[str, str]:
        """For an Iceberg REST catalog, whose warehouse is often a name: what it hands out wins over all of these.

        ``said``: the properties that the catalog has already.
        """
        delegation = {} if any(key.endswith(DELEGATION) for key in said) else {f"engine.{DELEGATION}": DELEGATED}
        if is_in_s3(warehouse):
            return {**delegation, **self.catalog_properties(warehouse)}
        # Where its tables are is not known: nothing of it chooses a class.
        found = self.catalog_properties("s3://")
        return {**delegation, **{key: value for key, value in found.items() if key not in FILE_IO}}

    def catalog_properties(self, warehouse: str) -> Mapping[str, str]:
        """For an Iceberg catalog with its files in S3; what the catalog says of itself wins."""
        scheme, _, rest = warehouse.partition("://")
        if scheme not in S3_SCHEMES:
            return {}
        bucket = self.s3.buckets.get(rest.partition("/")[0])
        found = {**dict(self.s3.properties("s3.")), **(dict(bucket.properties("s3.")) if bucket else {})}
        if self.s3.endpoint and "s3.path-style-access" not in found:
            found["s3.path-style-access"] = "true"
        return {**FILE_IO, **{CATALOG_NAMES.get(key, key): value for key, value in found.items()}}


def is_in_s3(location: str) -> bool:
    return location.partition("://")[0].lower() in S3_SCHEMES and "://" in location
