// SPDX-License-Identifier: Apache-2.0
package lakehand.hudi;

import java.io.IOException;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.hadoop.fs.HadoopFSUtils;
import org.apache.hudi.storage.StorageConfiguration;

/** The table on storage, made on first use so that a reader in Spark finds keys, partitions and ordering in its properties. */
final class Table {
  private final HoodieTableMetaClient meta;

  private Table(HoodieTableMetaClient meta) {
    this.meta = meta;
  }

  static Table openOrCreate(StorageConfiguration<?> storage, HoodieWriteConfig settings, Arguments arguments) throws IOException {
    String path = arguments.text("path");
    FileSystem files = HadoopFSUtils.getFs(path, storage);
    if (files.exists(new Path(path, ".hoodie/hoodie.properties"))) {
      return new Table(HoodieTableMetaClient.builder().setConf(storage).setBasePath(path).build());
    }
    return new Table(create(storage, settings, arguments));
  }

  private static HoodieTableMetaClient create(StorageConfiguration<?> storage, HoodieWriteConfig settings, Arguments arguments)
      throws IOException {
    return HoodieTableMetaClient.newTableBuilder()
        .setTableType(type(arguments))
        .setTableName(arguments.text("name"))
        .setDatabaseName(arguments.options().get("hoodie.database.name"))
        .setTableVersion(settings.getWriteVersion())
        .setTableCreateSchema(Rows.SCHEMA.toString())
        .setRecordKeyFields("id")
        .setPartitionFields("part")
        .setOrderingFields("ts")
        .setKeyGeneratorClassProp("org.apache.hudi.keygen.SimpleKeyGenerator")
        .initTable(storage, arguments.text("path"));
  }

  static String type(Arguments arguments) {
    return arguments.text("type", "MERGE_ON_READ");
  }

  HoodieTimeline timeline() {
    return meta.reloadActiveTimeline();
  }

  /** Whether the data of this instant is in the table, also when the call that wrote it failed afterwards. */
  boolean hasCompleted(String instant) {
    return instant != null && timeline().getCommitsTimeline().filterCompletedInstants().containsOrBeforeTimelineStarts(instant);
  }
}
