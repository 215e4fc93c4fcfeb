# SPDX-License-Identifier: Apache-2.0
"""How Spark reaches object stores: the options of the settings under the names of Hadoop and Lance."""

from collections.abc import Iterator, Mapping, Sequence

from lakehand.storage.object_stores import S3Options, buckets_in, s3_options

HADOOP = "spark.hadoop.fs.s3a."
LANCE = "spark.lakehand.s3."  # for jobs that open tables outside of the JVM
S3A = "org.apache.hadoop.fs.s3a"
# As pyarrow looks for credentials: environment, profile, role of the container or of the machine.
ANY_CREDENTIALS = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
ALWAYS = {
    "spark.hadoop.fs.s3.impl": f"{S3A}.S3AFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.s3.impl": f"{S3A}.S3A",
    f"{HADOOP}connection.establish.timeout": "10000",
    f"{HADOOP}connection.timeout": "60000",
    f"{HADOOP}attempts.maximum": "8",  # the SDK's own, with back-off
    f"{HADOOP}retry.throttle.limit": "20",
    # Hudi never closes some streams, each of which keeps a connection: the driver leaves before these are used up.
    f"{HADOOP}connection.maximum": "2000",
    f"{HADOOP}directory.marker.retention": "keep",  # else every write lists and deletes markers of the folders above
}


def storage_properties(storage: Mapping[str, str], schemes: Sequence[str]) -> dict[str, str]:
    if "s3" not in schemes:
        return {}
    found = {**ALWAYS, **dict(hadoop_options(HADOOP, s3_options(storage)))}
    for bucket in buckets_in(storage):
        found |= hadoop_options(f"{HADOOP}bucket.{bucket}.", s3_options(storage, bucket))
    return found | {f"{LANCE}{key.removeprefix('s3.')}": value for key, value in storage.items()}


def hadoop_options(prefix: str, options: S3Options) -> Iterator[tuple[str, str]]:
    if options.endpoint:
        yield f"{prefix}endpoint", options.endpoint
        yield f"{prefix}connection.ssl.enabled", "false" if options.is_http else "true"
    if options.region:
        yield f"{prefix}endpoint.region", options.region
    yield f"{prefix}path.style.access", "true" if options.is_path_style else "false"
    yield f"{prefix}aws.credentials.provider", provider_of(options)
    if options.access_key_id:
        yield f"{prefix}access.key", options.access_key_id
        yield f"{prefix}secret.key", options.secret_access_key
    if options.session_token:
        yield f"{prefix}session.token", options.session_token


def provider_of(options: S3Options) -> str:
    if not options.access_key_id:
        return ANY_CREDENTIALS
    return f"{S3A}.{'TemporaryAWSCredentialsProvider' if options.session_token else 'SimpleAWSCredentialsProvider'}"
