// SPDX-License-Identifier: Apache-2.0
package org.apache.hudi.aws.transaction.lock;

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.util.Properties;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.apache5.Apache5HttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** A stand-in, for races only, for the class of this name in hudi-aws: the lock file is written on conditions. */
public class S3StorageLockClient implements StorageLockClient {
  private final S3Client client =
      S3Client.builder()
          .httpClientBuilder(Apache5HttpClient.builder())
          .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT")))
          .region(Region.of(System.getenv("AWS_REGION")))
          .forcePathStyle(true)
          .build();
  private final String bucket;
  private final String key;

  public S3StorageLockClient(String owner, String lockFile, Properties properties) {
    URI uri = URI.create(lockFile);
    bucket = uri.getHost();
    key = uri.getPath().substring(1);
  }

  @Override
  public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
      StorageLockData data, Option<StorageLockFile> previous) {
    PutObjectRequest.Builder request = PutObjectRequest.builder().bucket(bucket).key(key);
    if (previous.isPresent()) {
      request.ifMatch(previous.get().getVersionId());
    } else {
      request.ifNoneMatch("*");
    }
    try {
      String tag = client.putObject(request.build(), RequestBody.fromBytes(StorageLockFile.toByteArray(data))).eTag();
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, tag)));
    } catch (S3Exception error) {
      boolean isTaken = error.statusCode() == 412 || error.statusCode() == 409;
      return Pair.of(isTaken ? LockUpsertResult.ACQUIRED_BY_OTHERS : LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
    try {
      ResponseBytes<GetObjectResponse> found = client.getObjectAsBytes(get -> get.bucket(bucket).key(key));
      ByteArrayInputStream content = new ByteArrayInputStream(found.asByteArray());
      return Pair.of(
          LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(content, found.response().eTag())));
    } catch (NoSuchKeyException error) {
      return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
    }
  }

  @Override
  public Option<String> readObject(String path, boolean checkExists) {
    URI uri = URI.create(path);
    try {
      return Option.of(
          client.getObjectAsBytes(get -> get.bucket(uri.getHost()).key(uri.getPath().substring(1))).asUtf8String());
    } catch (NoSuchKeyException error) {
      return Option.empty();
    }
  }

  @Override
  public boolean writeObject(String path, String content) {
    URI uri = URI.create(path);
    client.putObject(
        put -> put.bucket(uri.getHost()).key(uri.getPath().substring(1)), RequestBody.fromString(content));
    return true;
  }

  @Override
  public void close() {
    client.close();
  }
}
