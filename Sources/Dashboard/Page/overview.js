// The overview: rates, latencies and queues as lines.

import { request, store } from "/api.js";
import { bytes, count, duration, element, main, showStatus } from "/elements.js";
import { whenLeft } from "/navigation.js";

/** The samples of the overview, which go on while other pages are shown. */
const history = { samples: [], maximum: 120 };

async function sample() {
  const reply = await request("GET", "/statistics");
  const values = Object.fromEntries(reply.counters.map((one) => [one.name, one.value]));
  history.samples.push({ at: performance.now(), values, latencies: reply.latencies });
  if (history.samples.length > history.maximum) history.samples.shift();
  return reply;
}

function line(values) {
  const maximum = Math.max(...values, 1);
  const points = values.map((value, index) =>
    `${(index / Math.max(values.length - 1, 1)) * 200},${42 - (value / maximum) * 40}`);
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawing.setAttribute("viewBox", "0 0 200 44");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const polyline = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  polyline.setAttribute("points", points.join(" "));
  drawing.append(polyline);
  return drawing;
}

export function forgetSamples() {
  history.samples = [];
}

const measures = [
  ["Connected devices", "clients/connected"], ["Messages received", "messages/received", true],
  ["Messages delivered", "messages/sent", true], ["Waiting messages", "messages/stored"],
  ["Refused messages", "messages/refused", true], ["Refused logins", "connects/refused", true],
  ["Commits", "store/batches", true], ["Store in use", "store/used/bytes", false, bytes],
];

function measureCard([title, name, isRate, format = count]) {
  const samples = history.samples;
  const values = isRate
    ? samples.slice(1).map((one, index) => Math.max(0,
      (one.values[name] - samples[index].values[name]) * 1000 / (one.at - samples[index].at)))
    : samples.map((one) => one.values[name] ?? 0);
  const last = values.at(-1);
  const text = last == null ? "…" : isRate ? `${count(Math.round(last))}/s` : format(last);
  const total = samples.at(-1)?.values[name] ?? 0;
  return element("section", { class: "card" }, element("h2", {}, title),
    element("div", { class: "value" }, text),
    element("div", { class: "quiet" }, isRate ? `${count(total)} since the start` : "now"),
    line(values));
}

/** What is shown in microseconds, with the name of its buckets in the statistics. */
const latencies = [
  ["Acknowledgements", "acknowledgement"], ["Deliveries", "delivery"], ["Commits", "commit"],
];

/** The time within which a part of the things between two samples were done; 0 for none. */
function quantile(buckets, earlier, part) {
  const before = new Map(earlier.map((one) => [one.upToMicroseconds, one.count]));
  const counts = buckets.map((one) =>
    [one.upToMicroseconds, one.count - (before.get(one.upToMicroseconds) ?? 0)]);
  const total = counts.reduce((sum, [, value]) => sum + value, 0);
  let below = 0;
  for (const [bound, value] of counts) {
    below += value;
    if (value > 0 && below >= total * part) return bound;
  }
  return 0;
}

const microseconds = (value) => value < 1000 ? `${value} µs` : value < 1e6
  ? `${Math.round(value / 1000)} ms` : `${(value / 1e6).toFixed(1)} s`;

function latencyCard([title, name]) {
  const samples = history.samples;
  const values = (part) => samples.slice(1).map((one, index) =>
    quantile(one.latencies[name], samples[index].latencies[name], part));
  const slowest = values(0.99);
  const last = slowest.findLast((value) => value > 0);
  const half = values(0.5).findLast((value) => value > 0);
  return element("section", { class: "card" }, element("h2", {}, `${title}, 99 % within`),
    element("div", { class: "value" }, last ? microseconds(last) : "…"),
    element("div", { class: "quiet" }, half ? `half within ${microseconds(half)}`
      : "none since this page was opened"),
    line(slowest));
}

export const pages = {
  overview: {
    title: "Overview",
    async show() {
      const cards = element("div", { class: "grid" });
      const about = element("p", { class: "quiet" });
      main.append(element("h1", {}, "Overview"), about, cards);
      const refresh = async () => {
        const reply = await sample();
        about.textContent = `Martlet ${reply.brokerVersion}, up ${duration(reply.uptimeSeconds)}. `
          + (history.samples.at(-1).values["store/full"] ? "The store is full." : "");
        cards.replaceChildren(...measures.map(measureCard), ...latencies.map(latencyCard));
      };
      await refresh();
      const timer = setInterval(() => refresh().catch((error) => showStatus(error.message)), 2000);
      whenLeft(() => clearInterval(timer));
    },
  },
};
