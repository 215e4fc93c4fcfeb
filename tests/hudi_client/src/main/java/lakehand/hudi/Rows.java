// SPDX-License-Identifier: Apache-2.0
package lakehand.hudi;

import java.util.List;
import java.util.stream.IntStream;

import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.hudi.common.model.DefaultHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieAvroRecord;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieRecord;

/** The rows of one commit: always the same keys, with {@code value = 1000 * commit + row} so that a reader can add them up. */
final class Rows {
  static final Schema SCHEMA = SchemaBuilder.record("row").namespace("lakehand.tests").fields()
      .requiredString("id").requiredLong("ts").requiredString("part").requiredLong("value").endRecord();

  private Rows() {}

  static List<HoodieRecord<DefaultHoodieRecordPayload>> of(int commit, int rows, int partitions) {
    return IntStream.range(0, rows).mapToObj(row -> record(commit, row, "p" + row % partitions)).toList();
  }

  private static HoodieRecord<DefaultHoodieRecordPayload> record(int commit, int row, String part) {
    String id = String.format("id-%06d", row);
    GenericRecord fields = new GenericData.Record(SCHEMA);
    fields.put("id", id);
    fields.put("ts", (long) commit);
    fields.put("part", part);
    fields.put("value", 1000L * commit + row);
    return new HoodieAvroRecord<>(new HoodieKey(id, part), new DefaultHoodieRecordPayload(fields, (long) commit));
  }
}
