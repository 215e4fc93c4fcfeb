# SPDX-License-Identifier: Apache-2.0
"""Real Hudi writers with the options that `lakehand hudi-options` prints, against a service: rows, and one completed
instant for each plan.

Writers of Hudi 0.15.0, 1.0.2, 1.1.1 and 1.2.0 on Spark 3.5, and Hudi's Java client 1.2.1. What could not be had, and is
therefore not proved here: a Spark writer of 1.2.1, any bundle for Spark 4, Hudi's streamer, and Flink. Of 1.0.0, 1.0.1
and 0.14 only the sources were read.
"""
