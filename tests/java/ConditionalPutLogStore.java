// SPDX-License-Identifier: Apache-2.0
package lakehand.trial;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.apache5.Apache5HttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** A log store of Delta whose commits are conditional puts: of two that write one version, the store refuses one. */
public class ConditionalPutLogStore extends HadoopFileSystemLogStore {
  private static final int IN_PROGRESS = 409;
  private static final int EXISTS = 412;
  private static final int ATTEMPTS = 5;
  private volatile S3Client client;

  public ConditionalPutLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    StringBuilder text = new StringBuilder();
    while (actions.hasNext()) {
      text.append(actions.next()).append('\n');
    }
    byte[] content = text.toString().getBytes(StandardCharsets.UTF_8);
    URI uri = path.toUri();
    PutObjectRequest.Builder request = PutObjectRequest.builder().bucket(uri.getHost()).key(uri.getPath().substring(1));
    if (!overwrite) {
      request.ifNoneMatch("*");
    }
    for (int attempt = 1; ; attempt++) {
      try {
        clientOf(conf).putObject(request.build(), RequestBody.fromBytes(content));
        return;
      } catch (S3Exception error) {
        if (error.statusCode() == EXISTS && isOurs(request, content, conf)) {
          return; // the answer to an earlier attempt was lost: the version is ours
        }
        if (error.statusCode() == EXISTS) {
          throw new FileAlreadyExistsException(path.toString());
        }
        if (error.statusCode() != IN_PROGRESS || attempt == ATTEMPTS) {
          throw new IOException(error);
        }
      }
    }
  }

  /** A commit has the names of its files and an id of its own in it: no two are equal. */
  private boolean isOurs(PutObjectRequest.Builder put, byte[] content, Configuration conf) {
    PutObjectRequest made = put.build();
    byte[] found = clientOf(conf).getObjectAsBytes(get -> get.bucket(made.bucket()).key(made.key())).asByteArray();
    return Arrays.equals(found, content);
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }

  private synchronized S3Client clientOf(Configuration conf) {
    if (client == null) {
      client =
          S3Client.builder()
              .httpClientBuilder(Apache5HttpClient.builder())
              .endpointOverride(URI.create(conf.get("fs.s3a.endpoint")))
              .region(Region.of(conf.get("fs.s3a.endpoint.region")))
              .forcePathStyle(conf.getBoolean("fs.s3a.path.style.access", true))
              .credentialsProvider(
                  StaticCredentialsProvider.create(
                      AwsBasicCredentials.create(conf.get("fs.s3a.access.key"), conf.get("fs.s3a.secret.key"))))
              .build();
    }
    return client;
  }
}
