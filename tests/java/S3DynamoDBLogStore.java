// SPDX-License-Identifier: Apache-2.0
package io.delta.storage;

import lakehand.trial.ConditionalPutLogStore;
import org.apache.hadoop.conf.Configuration;

/** A stand-in, for tests only, for the class of this name in delta-storage-s3-dynamodb: it needs no DynamoDB. */
public class S3DynamoDBLogStore extends ConditionalPutLogStore {
  public S3DynamoDBLogStore(Configuration conf) {
    super(conf);
  }
}
