# SPDX-License-Identifier: Apache-2.0
"""Which metrics and labels an expression of Prometheus uses, and which ones there are."""

import re
from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from lakehand.observe.metrics import PrometheusMetrics

METRIC = re.compile(r"(?<![\w:])((?:lakehand|process)_\w+|up)\b(?:\{([^}]*)\})?")
TEXT = re.compile(r'"[^"]*"')
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\bby \(([^)]*)\) \(")
OF_TARGETS = frozenset({"job", "instance"})  # Prometheus adds them to everything that it scrapes
SAMPLES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def known_metrics() -> dict[str, frozenset[str]]:
    """Each time series that a service can have, with its labels."""
    metrics = PrometheusMetrics()
    known = {"up": OF_TARGETS}
    known |= {sample.name: OF_TARGETS for family in metrics.registry.collect() for sample in family.samples}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            for suffix in SAMPLES[str(metric._type)]:
                own = {*metric._labelnames, *({"le"} if suffix == "_bucket" else ())}
                known[metric._name + suffix] = OF_TARGETS | own
    return known


KNOWN = known_metrics()


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric that is read, and the labels that it is chosen by."""
    for name, matchers in METRIC.findall(TEXT.sub("", expr)):
        yield name, set(LABEL.findall(matchers))


def groupings(expr: str) -> Iterator[tuple[set[str], str]]:
    """The labels of each ``by``, and the expression that is grouped."""
    for found in GROUPING.finditer(expr):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(expr[end], 0)
            end += 1
        yield set(found[1].replace(" ", "").split(",")), expr[found.end() : end - 1]


def kept_labels(expr: str) -> set[str]:
    """Labels that a result can have: those it is grouped by, or all of the metrics where nothing is grouped."""
    grouped = [labels for labels, _ in groupings(expr)]
    return set().union(*grouped) if grouped else set().union(*(KNOWN.get(name, set()) for name, _ in selectors(expr)))


def problems(expr: str) -> list[str]:
    """Names of metrics and labels that do not exist."""
    wrong = [name for name, _ in selectors(expr) if name not in KNOWN]
    wrong += [
        f"{name} by {labels - KNOWN[name]}" for name, labels in selectors(expr) if labels - KNOWN.get(name, labels)
    ]
    for labels, inner in groupings(expr):
        wrong += [f"{name} grouped by {labels}" for name, _ in selectors(inner) if labels - KNOWN.get(name, labels)]
    return wrong
