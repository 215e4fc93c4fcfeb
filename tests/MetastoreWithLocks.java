// SPDX-License-Identifier: Apache-2.0
// Starts Spark's own Hive metastore after making the tables of its locks, which only Hive's schema tool makes otherwise.
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

public class MetastoreWithLocks {
    public static void main(String[] arguments) throws Throwable {
        TxnDbUtil.prepDb(new HiveConf());
        HiveMetaStore.main(arguments);
    }
}
