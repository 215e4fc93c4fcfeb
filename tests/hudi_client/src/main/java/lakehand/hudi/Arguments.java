// SPDX-License-Identifier: Apache-2.0
package lakehand.hudi;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** The command line: pairs of {@code --key value}, and any number of {@code --option name=value} for Hudi itself. */
final class Arguments {
  private final Map<String, String> values = new HashMap<>();
  private final Map<String, String> options = new LinkedHashMap<>();

  static Arguments parse(String[] words) {
    Arguments parsed = new Arguments();
    for (int i = 0; i < words.length; i += 2) {
      if (!words[i].startsWith("--") || i + 1 == words.length) {
        throw new IllegalArgumentException("expected --key value, found: " + words[i]);
      }
      parsed.add(words[i].substring(2), words[i + 1]);
    }
    return parsed;
  }

  private void add(String key, String value) {
    if (!key.equals("option")) {
      values.put(key, value);
      return;
    }
    int equals = value.indexOf('=');
    if (equals < 1) {
      throw new IllegalArgumentException("expected --option name=value, found: " + value);
    }
    options.put(value.substring(0, equals), value.substring(equals + 1));
  }

  boolean has(String key) {
    return values.containsKey(key);
  }

  String text(String key) {
    if (!has(key)) {
      throw new IllegalArgumentException("--" + key + " is missing");
    }
    return values.get(key);
  }

  String text(String key, String otherwise) {
    return values.getOrDefault(key, otherwise);
  }

  int number(String key, int otherwise) {
    return has(key) ? Integer.parseInt(values.get(key)) : otherwise;
  }

  Map<String, String> options() {
    return options;
  }
}
