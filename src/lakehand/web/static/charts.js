// SPDX-License-Identifier: Apache-2.0
// Draws each figure from the JSON beside it. Without the chart library the table behind the chart is shown instead.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function layout(chart) {
  const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), fixedrange: true };
  return {
    autosize: true,
    margin: { l: 56, r: 16, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("text"), size: 12 },
    barmode: chart.barmode || "group",
    showlegend: chart.series.length > 1,
    legend: { orientation: "h", y: 1.12 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("raised"), font: { color: colour("text") } },
    xaxis: { ...axis, showgrid: false, type: chart.kind === "time" ? "date" : "category" },
    yaxis: { ...axis, rangemode: "tozero", tickformat: "~s", title: { text: chart.unit || "" } },
    shapes: (chart.annotations || []).map((annotation) => ({
      type: "line", x0: annotation.x, x1: annotation.x, y0: 0, y1: 1, yref: "paper",
      line: { color: colour(annotation.colour), width: 1, dash: "dot" },
    })),
  };
}

function traces(chart) {
  const drawn = chart.series.map((one) => ({
    x: one.x, y: one.y, name: one.name, type: one.bars ? "bar" : "scatter", mode: one.x.length > 1 ? "lines" : "markers", connectgaps: true,
    line: { color: colour(one.colour), width: 2, shape: one.bars ? undefined : "hv" }, marker: { color: colour(one.colour) },
  }));
  const annotations = chart.annotations || [];
  if (annotations.length) {
    drawn.push({
      x: annotations.map((one) => one.x), y: annotations.map(() => 0), text: annotations.map((one) => one.text), name: "operations",
      type: "scatter", mode: "markers", hovertemplate: "%{text}<extra></extra>",
      marker: { symbol: "triangle-up", size: 10, color: annotations.map((one) => colour(one.colour)) },
    });
  }
  return drawn;
}

export function redrawInNewColours() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts({ again: true }));
}

export function drawCharts({ again = false }) {
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const data = figure.querySelector("script[type='application/json']");
    const plot = figure.querySelector(".plot");
    const table = figure.querySelector("details");
    if (!data || !plot || !window.Plotly) continue;
    if (!again && plot.dataset.drawn === data.textContent) continue;
    plot.dataset.drawn = data.textContent;
    const chart = JSON.parse(data.textContent);
    if (table && !table.dataset.seen) {
      table.open = false;
      table.dataset.seen = "1";
    }
    window.Plotly.react(plot, traces(chart), layout(chart), { displayModeBar: false, responsive: true, staticPlot: false });
  }
}
