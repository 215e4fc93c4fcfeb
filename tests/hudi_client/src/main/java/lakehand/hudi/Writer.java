// SPDX-License-Identifier: Apache-2.0
package lakehand.hudi;

import java.io.IOException;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.HoodieJavaWriteClient;
import org.apache.hudi.client.WriteStatus;
import org.apache.hudi.client.common.HoodieJavaEngineContext;
import org.apache.hudi.common.model.DefaultHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.hadoop.fs.HadoopFSUtils;
import org.apache.hudi.storage.StorageConfiguration;

/** Commits the same keys again and again, and prints one line of JSON for each commit. A failed commit never stops the next one. */
public final class Writer {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final PrintStream REPORT = System.out;

  private final Arguments arguments;
  private final Table table;
  private final HoodieJavaWriteClient<DefaultHoodieRecordPayload> client;

  private Writer(Arguments arguments, Table table, HoodieJavaWriteClient<DefaultHoodieRecordPayload> client) {
    this.arguments = arguments;
    this.table = table;
    this.client = client;
  }

  public static void main(String[] words) throws IOException {
    System.setOut(System.err); // some libraries print to standard output, which is for the report alone
    Arguments arguments = Arguments.parse(words);
    HoodieWriteConfig settings = Settings.from(arguments);
    StorageConfiguration<?> storage = HadoopFSUtils.getStorageConf(new Configuration());
    Table table = Table.openOrCreate(storage, settings, arguments);
    boolean allOk;
    try (var client = new HoodieJavaWriteClient<DefaultHoodieRecordPayload>(new HoodieJavaEngineContext(storage), settings)) {
      allOk = new Writer(arguments, table, client).writeAll();
    }
    System.exit(allOk ? 0 : 1);
  }

  private boolean writeAll() throws JsonProcessingException {
    int first = arguments.number("start-commit", 1);
    boolean allOk = true;
    for (int commit = first; commit < first + arguments.number("commits", 1); commit++) {
      Map<String, Object> line = write(commit);
      allOk &= (boolean) line.get("ok");
      REPORT.println(JSON.writeValueAsString(line));
    }
    REPORT.println(JSON.writeValueAsString(ending()));
    return allOk;
  }

  private Map<String, Object> write(int commit) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("commit", commit);
    long start = System.nanoTime();
    try {
      String instant = client.startCommit();
      line.put("instant", instant);
      line.put("ok", client.commit(instant, upload(commit, instant)));
    } catch (RuntimeException problem) {
      line.put("ok", false);
      line.put("error", problem.getClass().getName() + ": " + problem.getMessage());
      problem.printStackTrace();
    }
    line.put("millis", (System.nanoTime() - start) / 1_000_000);
    line.put("completed", table.hasCompleted((String) line.get("instant")));
    return line;
  }

  private List<WriteStatus> upload(int commit, String instant) {
    List<HoodieRecord<DefaultHoodieRecordPayload>> rows =
        Rows.of(commit, arguments.number("rows", 100), arguments.number("partitions", 1));
    return commit == 1 ? client.insert(rows, instant) : client.upsert(rows, instant);
  }

  private Map<String, Object> ending() {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("done", true);
    HoodieTimeline timeline = table.timeline();
    line.put("pending_compactions", times(timeline.filterPendingCompactionTimeline()));
    line.put("pending_clusterings", times(timeline.filterPendingClusteringTimeline()));
    line.put("pending_cleans", times(timeline.filterInflightsAndRequested().filter(i -> i.getAction().equals(HoodieTimeline.CLEAN_ACTION))));
    return line;
  }

  private static List<String> times(HoodieTimeline timeline) {
    return timeline.getInstantsAsStream().map(HoodieInstant::requestedTime).sorted().toList();
  }
}
