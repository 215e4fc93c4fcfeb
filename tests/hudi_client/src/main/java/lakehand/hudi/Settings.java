// SPDX-License-Identifier: Apache-2.0
package lakehand.hudi;

import java.util.Properties;

import org.apache.hudi.config.HoodieWriteConfig;

/** The options of the Hudi writer. What the command line passes with {@code --option} wins over everything here. */
final class Settings {
  private static final String CLUSTERING = "org.apache.hudi.client.clustering.";

  private Settings() {}

  static HoodieWriteConfig from(Arguments arguments) {
    Properties options = new Properties();
    table(options, arguments);
    scheduling(options, arguments);
    notifications(options, arguments);
    options.putAll(arguments.options());
    return HoodieWriteConfig.newBuilder().withPath(arguments.text("path")).forTable(arguments.text("name"))
        .withSchema(Rows.SCHEMA.toString()).withProperties(options).build();
  }

  private static void table(Properties options, Arguments arguments) {
    options.setProperty("hoodie.datasource.write.recordkey.field", "id");
    options.setProperty("hoodie.datasource.write.partitionpath.field", "part");
    options.setProperty("hoodie.table.ordering.fields", "ts");
    // An index that reads the table: a second run must find the keys of the first.
    options.setProperty("hoodie.index.type", "SIMPLE");
    options.setProperty("hoodie.metadata.enable", arguments.text("metadata", "false"));
    options.setProperty("hoodie.insert.shuffle.parallelism", "2");
    options.setProperty("hoodie.upsert.shuffle.parallelism", "2");
    // The timeline service is not among our jars.
    options.setProperty("hoodie.embed.timeline.server", "false");
    options.setProperty("hoodie.write.markers.type", "DIRECT");
    // Hudi's defaults name the classes of its Spark writer.
    options.setProperty("hoodie.clustering.plan.strategy.class", CLUSTERING + "plan.strategy.JavaSizeBasedClusteringPlanStrategy");
    options.setProperty("hoodie.clustering.execution.strategy.class", CLUSTERING + "run.strategy.JavaSortAndSizeExecutionStrategy");
  }

  /** With a manager the writer asks it after each commit; without one it leaves its plans on the timeline. */
  private static void scheduling(Properties options, Arguments arguments) {
    boolean managed = arguments.has("uri");
    boolean compacts = Table.type(arguments).equals("MERGE_ON_READ");
    options.setProperty("hoodie.compact.inline", String.valueOf(compacts && managed));
    options.setProperty("hoodie.compact.schedule.inline", String.valueOf(compacts && !managed));
    options.setProperty("hoodie.compact.inline.max.delta.commits", arguments.text("max-delta-commits", "2"));
    if (managed) {
      options.setProperty("hoodie.table.service.manager.enabled", "true");
      options.setProperty("hoodie.table.service.manager.uris", arguments.text("uri"));
      options.setProperty("hoodie.table.service.manager.actions", arguments.text("actions", "compaction"));
    }
  }

  private static void notifications(Properties options, Arguments arguments) {
    if (arguments.has("callback")) {
      options.setProperty("hoodie.write.commit.callback.on", "true");
      options.setProperty("hoodie.write.commit.callback.http.url", arguments.text("callback"));
    }
  }
}
