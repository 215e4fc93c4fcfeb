# SPDX-License-Identifier: Apache-2.0
"""Whether a bucket keeps conditions. A commit of Lance is a write that must fail if the version is there already:
where the store ignores that, one of two commits is lost without an error. So it is tried before the first commit."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from lakehand.jobs.job import Job
from lakehand.jobs.lance.datasets import Source
from lakehand.jobs.spark import jvm

ROUNDS, RIVALS = 4, 4
REFUSED = (409, 412)  # somebody else's write is there, or is under way
ENDPOINTS = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL")
_shown: set[tuple[str, str]] = set()  # endpoint and bucket; for the life of this driver


class ConditionsIgnored(Exception):
    """The store lets several writers create one object: a commit could be lost."""


def check_conditions(job: Job, source: Source) -> None:
    """Raise unless of several that create one object exactly one succeeds, in every round."""
    scheme, _, rest = source.uri.partition("://")
    if scheme != "s3":
        return
    bucket, _, prefix = rest.partition("/")
    known = (endpoint_of(source), bucket)
    if known in _shown:
        return
    job.phase(f"trying whether {bucket} keeps conditions")
    with ThreadPoolExecutor(RIVALS) as rivals:
        probe = Probe(client_of(job, source), jvm(job.session), bucket)
        winners = [probe.count_winners(f"{prefix}/_transactions/lakehand-{uuid4().hex}", rivals) for _ in range(ROUNDS)]
    if any(count != 1 for count in winners):
        raise ConditionsIgnored(
            f"{bucket} does not keep conditions: of {RIVALS} that created one object at once, {winners} succeeded in "
            f"{ROUNDS} rounds. Two drivers would overwrite each other's commits, so that nothing is committed here"
        )
    _shown.add(known)


@dataclass(frozen=True)
class Probe:
    client: Any
    java: Any
    bucket: str

    def count_winners(self, key: str, rivals: ThreadPoolExecutor) -> int:
        try:
            return sum(rivals.map(lambda number: self.create(key, number), range(RIVALS)))
        finally:
            sdk = self.java.software.amazon.awssdk.services.s3.model
            self.client.deleteObject(sdk.DeleteObjectRequest.builder().bucket(self.bucket).key(key).build())

    def create(self, key: str, number: int) -> bool:
        sdk = self.java.software.amazon.awssdk
        request = sdk.services.s3.model.PutObjectRequest.builder().bucket(self.bucket).key(key).ifNoneMatch("*").build()
        try:
            self.client.putObject(request, sdk.core.sync.RequestBody.fromString(f"rival {number}"))
        except Py4JJavaError as error:
            if status_of(error) in REFUSED:
                return False
            raise
        return True


def status_of(error: Py4JJavaError) -> int:
    status = getattr(error.java_exception, "statusCode", None)
    try:
        return int(status()) if status else 0
    except Py4JJavaError:
        return 0


def endpoint_of(source: Source) -> str:
    named = (os.environ.get(name, "") for name in ENDPOINTS)
    return source.options.get("aws_endpoint") or next((one for one in named if one), "")


def client_of(job: Job, source: Source) -> Any:
    """The client of Amazon's library for Java, which comes with Iceberg's jar for S3."""
    sdk, options = jvm(job.session).software.amazon.awssdk, source.options
    builder = sdk.services.s3.S3Client.builder().httpClientBuilder(sdk.http.apache5.Apache5HttpClient.builder())
    builder = builder.credentialsProvider(credentials_of(sdk, options))
    if region := options.get("aws_region") or os.environ.get("AWS_REGION", ""):
        builder = builder.region(sdk.regions.Region.of(region))
    if endpoint := endpoint_of(source):
        builder = builder.endpointOverride(jvm(job.session).java.net.URI.create(endpoint))
    is_path_style = options.get("aws_virtual_hosted_style_request") != "true"
    return builder.forcePathStyle(is_path_style).build()


def credentials_of(sdk: Any, options: dict[str, str]) -> Any:
    key, secret = options.get("aws_access_key_id"), options.get("aws_secret_access_key")
    credentials = sdk.auth.credentials
    if not key:
        return credentials.DefaultCredentialsProvider.create()
    token = options.get("aws_session_token")
    if token:
        return credentials.StaticCredentialsProvider.create(
            credentials.AwsSessionCredentials.create(key, secret, token)
        )
    return credentials.StaticCredentialsProvider.create(credentials.AwsBasicCredentials.create(key, secret))
