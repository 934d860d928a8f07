// The cluster: its nodes, the lease, the log with its servers, and the alarms.

import { hasRole, request } from "/api.js";
import {
  button, bytes, confirmed, count, counted, element, main, showStatus, table,
} from "/elements.js";
import { whenLeft } from "/navigation.js";

export const pages = {
  cluster: {
    title: "Cluster",
    async show() {
      const content = element("div");
      main.append(element("h1", {}, "Cluster"), content);
      let timer = 0;
      let isOver = false;
      whenLeft(() => {
        isOver = true;
        clearTimeout(timer);
      });
      let last = null;
      const refresh = async () => {
        try {
          last = await request("GET", "/cluster");
          if (!isOver) content.replaceChildren(...parts(last));
        } catch (error) {
          if (error.status === 401 || isOver) return;
          if (error.status === 404) {
            content.replaceChildren(element("p", { class: "quiet" },
              "This broker is no node of a cluster."));
            return;
          }
          content.replaceChildren(...absence(error, last));
        }
        timer = setTimeout(refresh, 1000);
      };
      await refresh();
    },
  },
};

function parts(cluster) {
  return [alarms(cluster), shards(cluster), nodes(cluster), lease(cluster), log(cluster),
    hasRole("own") ? hand(cluster) : null].filter((part) => part != null);
}

function alarms(cluster) {
  // With several shards, those of the default one are told with it.
  const alarms = cluster.shards?.flatMap(({ name, alarms }) =>
    alarms.map((text) => `Shard ${name}: ${text}`)) ?? cluster.alarms;
  if (alarms.length === 0) return element("p", { class: "good", role: "status" }, "No alarms.");
  return element("section", { class: "card", role: "alert" }, element("h2", {}, "Alarms"),
    element("ul", {}, alarms.map((text) => element("li", { class: "bad" }, text))));
}

/** The parts of this node in the shards; what follows on the page is of the default one. */
function shards(cluster) {
  if (cluster.shards == null) return null;
  return table("Shards", ["Shard", "Part", "Lease", "#Position", "#Lag", "Primary"],
    cluster.shards.map((shard) => [shard.name,
      shard.part === "primary" ? element("strong", {}, shard.part) : shard.part,
      shard.hasLease ? "held" : "", count(shard.sequence), counted(shard.lagRecords, "record"),
      shard.primary || "not known"]), "No shard is known.");
}

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(1)} s`;

function nodes(cluster) {
  return table("Nodes", ["Node", "Part", "Clients", "#Position", "#Lag", "Heard", "Dashboard"],
    cluster.nodes.map((node, index) => [node.name,
      node.part === "primary" ? element("strong", {}, node.part) : node.part, node.address,
      count(node.sequence), counted(node.lagRecords, "record"),
      index === 0 ? "this node" : `${seconds(node.heardMilliseconds)} ago`,
      index === 0 ? "" : link(node)]), "No node is known.");
}

/** Another node's dashboard. Its address comes from that node. */
function link({ name, webAddress }) {
  if (!/^https?:\/\//.test(webAddress)) return "";
  return element("a", { href: webAddress, rel: "noreferrer" }, `open ${name}`);
}

function lease(cluster) {
  return element("section", { class: "card" }, element("h2", {}, "Lease"), element("dl", {},
    element("dt", {}, "Held"), cluster.hasLease
      ? element("dd", { class: "good" },
        `for another ${seconds(cluster.leaseLeftMilliseconds)} of `
        + seconds(cluster.leaseMilliseconds))
      : element("dd", { class: "bad" }, "not now: nothing leaves this node"),
    element("dt", {}, "Taken over with"), element("dd", {}, `record ${count(cluster.term)}`),
    element("dt", {}, "Durability"), element("dd", {}, cluster.durability)));
}

function log(cluster) {
  const size = cluster.lastRecord == null
    ? element("p", { class: "bad" }, "No server tells the state of the log.")
    : element("p", {}, `Records ${count(cluster.firstRecord)} to ${count(cluster.lastRecord)}, `
      + `${bytes(cluster.logByteCount)} of ${bytes(cluster.logByteCountMaximum)}.`);
  return element("section", { class: "card" }, element("h2", {}, "Log"), size,
    table("Servers", ["Server", "Part", "State"], cluster.servers.map((server) => [server.name,
      server.isLeader ? "leader" : "follower", server.isCurrent ? "current"
        : element("span", { class: "bad" },
          `not reachable, or ${counted(server.lag, "operation")} behind`)]),
    "No server is known."));
}

/** The hand-over to another node. */
function hand(cluster) {
  const own = cluster.nodes[0];
  return element("section", { class: "card" }, element("h2", {}, "Hand-over"),
    element("p", { class: "quiet" }, "Another node becomes the primary within two seconds. Clients "
      + "connect again, and no message is lost. This node starts again as a standby."),
    button("Step down", async () => {
      if (!await confirmed(`Give the place of the primary ${own.name} to another node?`,
        "Step down")) return;
      await request("POST", "/cluster/step-down");
      showStatus(`${own.name} gives its place to another node.`);
    }, "danger"));
}

/** What is shown while this node does not answer, or answers as a standby. */
function absence(error, last) {
  const others = (last?.nodes ?? []).slice(1).map(link).filter((one) => one !== "");
  return [element("p", { class: "bad", role: "alert" }, error.message),
    others.length
      ? element("p", {}, "Another node may be the primary: ",
        others.flatMap((one, index) => index ? [", ", one] : [one]))
      : null].filter((part) => part != null);
}
