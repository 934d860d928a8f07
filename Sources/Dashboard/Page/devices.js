// Devices: the list, and one device with all that is known about it.

import { appPath, hasRole, request, segment } from "/api.js";
import { contentCard } from "/content.js";
import {
  button, bytes, confirmed, count, counted, duration, element, field, main, reportingErrors,
  showStatus, table, time,
} from "/elements.js";
import { reopen, whenLeft } from "/navigation.js";

/** A device may have no name. */
const deviceName = (user, device) =>
  device ? `${user}/${device}` : `${user}, device without a name`;

export const pages = {
  devices: {
    title: "Devices",
    async show() {
      const user = element("input", { name: "user", autocomplete: "off" });
      const state = element("select", { name: "state" },
        element("option", { value: "" }, "all"),
        element("option", { value: "true" }, "connected"),
        element("option", { value: "false" }, "disconnected"));
      const list = element("div");
      let next = null;
      const load = async (after) => {
        const reply = await request("GET", `${appPath()}/sessions`,
          { query: { "user[prefix]": user.value || null, isConnected: state.value || null,
            after } });
        next = reply.next;
        const rows = reply.sessions.map((one) => [
          element("a", { href: `#device/${segment(one.user)}/${segment(one.device)}` },
            deviceName(one.user, one.device)),
          one.dialect,
          one.connectedUnixMilliseconds != null
            ? element("span", { class: "good" }, "connected") : "disconnected",
          one.connectedUnixMilliseconds != null ? time(one.connectedUnixMilliseconds)
            : one.awaySeconds != null ? `${duration(one.awaySeconds)} ago` : "",
          count(one.queue.messageCount), bytes(one.queue.byteCount)]);
        list.replaceChildren(table("Devices",
          ["Device", "Protocol", "State", "Since", "#Queue", "#Size"], rows,
          "No session matches."));
        if (next != null) list.append(button("Next page", () => load(next)));
      };
      const form = element("form", { class: "row", onsubmit: reportingErrors(() => load()) },
        field("User, or how its name begins", user), field("State", state),
        element("button", { class: "primary" }, "Show"));
      main.append(element("h1", {}, "Devices"), form, list);
      await load();
    },
  },

  users: {
    title: "Users",
    async show() {
      const name = element("input", { name: "user", autocomplete: "off" });
      const added = element("input", { name: "added", required: true, autocomplete: "off" });
      const list = element("div");
      const load = async (after) => {
        const reply = await request("GET", `${appPath()}/users`,
          { query: { "user[prefix]": name.value || null, after, limit: 100 } });
        list.replaceChildren(table("Users",
          ["User", "#Devices", "#Connected", "#Tokens", "Last seen"],
          reply.users.map((one) => [
            element("a", { href: `#user/${segment(one.user)}` }, one.user),
            count(one.sessionCount), count(one.connectionCount), count(one.tokenCount),
            one.lastSeenUnixMilliseconds ? time(one.lastSeenUnixMilliseconds) : "never"]),
          "No user matches."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      main.append(element("h1", {}, "Users"),
        element("form", { class: "row", onsubmit: reportingErrors(() => load()) },
          field("How the name begins", name), element("button", { class: "primary" }, "Show")),
        hasRole("operate") ? element("form", {
          class: "row", onsubmit: reportingErrors(async () => {
            const reply = await request("PUT", `${appPath()}/users/${segment(added.value)}`);
            showStatus(reply.isNew ? `${added.value} is known now.`
              : `${added.value} was known already.`);
            await load();
          }),
        }, field("New user", added), element("button", {}, "Make known")) : "", list);
      await load();
    },
  },

  device: {
    async show(user, device) {
      main.append(element("h1", {}, deviceName(user, device)));
      const query = { user, device };
      const reply = await request("GET", `${appPath()}/sessions`, { query });
      const session = reply.sessions.find((one) => one.user === user && one.device === device);
      if (!session) {
        main.append(element("p", {}, "This device has no session now."));
        return;
      }
      const known = (await request("GET", `${appPath()}/users/${segment(user)}`)).devices
        .find((one) => one.device === device) ?? {};
      const groups = await request("GET", `${appPath()}/groups`, { query: { user } });
      const facts = {
        Protocol: session.dialect,
        Address: known.address ? `${known.address}, by ${known.listener}` : "not connected",
        Credential: known.credential
          ? [known.credential.kind, known.credential.id].filter((word) => word).join(" ")
          : "none of this connection",
        State: session.connectedUnixMilliseconds != null
          ? `connected since ${time(session.connectedUnixMilliseconds)}`
          : `disconnected for ${duration(session.awaySeconds ?? 0)}`,
        "Session ends": session.expirySeconds == null ? "never"
          : `${duration(session.expirySeconds)} after a disconnection`,
        "Keep alive": session.keepAliveSeconds ? `${session.keepAliveSeconds} s` : "none",
        "Waiting messages": `${count(session.queue.messageCount)}, `
          + bytes(session.queue.byteCount),
        "Refused or dropped": count(session.queue.overflowCount),
        "In delivery": count(session.underWayCount),
        Subscriptions: session.filterCount === 0 ? "none"
          : `${count(session.filterCount)}: ${session.filters.join(", ")}`,
        Groups: groups.groups.length === 0 ? "none" : groups.groups.flatMap((one, index) => [
          index > 0 ? ", " : null, element("a", { href: `#group/${segment(one.groupid)}` },
            one.title || one.groupid)]).concat(groups.next != null ? [", …"] : []),
        Will: session.hasWill ? "set" : "none",
      };
      const change = (text, action, path, extra = {}) => async () => {
        if (!await confirmed(text, action)) return;
        await request("DELETE", `${appPath()}/${path}`, { query: { ...query, ...extra } });
        showStatus("Done.");
        await reopen();
      };
      main.append(
        element("section", { class: "card" }, element("dl", {}, Object.entries(facts).flatMap(
          ([name, value]) => [element("dt", {}, name), element("dd", {}, ...[value].flat())]))),
        hasRole("operate") ? element("div", { class: "row" },
          button("End the connection", change(
            `End the connection of ${user}/${device}? Its session remains, and it may connect `
              + "again.", "End the connection", "connections"), "danger"),
          button("Discard the queue", change(
            `Discard the messages that wait for ${user}/${device}? They are lost.`,
            "Discard the queue", "queues", { isConnected: false }), "danger"),
          button("End the session", change(
            `End the session of ${user}/${device}? Its subscriptions and waiting messages are `
              + "lost.", "End the session", "sessions"), "danger")) : "");
      main.append(queueCard(user, device));
      explain(user, device);
      if (hasRole("operate")) main.append(traceCard(user, device));
      main.append(await presenceCard(user, device));
    },
  },
};

/** The messages that wait for a device. */
function queueCard(user, device) {
  const list = element("div");
  const shown = element("div");
  const path = `${appPath()}/users/${segment(user)}/queue`;
  const look = (one) => async () => {
    const reply = await request("GET", `${path}/contents`,
      { query: { device, after: one.number - 1, limit: 1 } });
    const found = reply.messages.find((other) => other.number === one.number);
    if (!found?.content) throw new Error("The message is not in the queue any more.");
    shown.replaceChildren(contentCard(`Message ${one.number} from ${one.from}`, found.content));
  };
  const drop = (one) => async () => {
    if (!await confirmed(`Drop message ${one.number} from ${one.from}, which waits for `
      + `${user}/${device}? It is lost.`, "Drop the message")) return;
    await request("DELETE", `${path}/messages/${one.number}`, { query: { device } });
    shown.replaceChildren();
    await load();
    showStatus("The message is dropped.");
  };
  async function load(after) {
    const reply = await request("GET", `${path}/messages`, { query: { device, after, limit: 50 } });
    list.replaceChildren(table("Waiting messages",
      ["#Number", "From", "To", "Grade", "#Size", "Time", "Expires", ""],
      reply.messages.map((one) => [
        count(one.number), one.from, one.topic ?? one.groupid ?? one.kind,
        one.grade, bytes(one.byteCount), time(one.unixMilliseconds),
        one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
        hasRole("operate") ? element("div", { class: "actions" }, button("Look", look(one)),
          button("Drop", drop(one), "danger")) : ""]),
      "No message waits."));
    if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
  }
  reportingErrors(load)();
  return element("section", { "aria-label": "Queue" }, element("h2", {}, "Queue"), shown, list);
}

/** The form that shows which right allows an action of a device. */
function explain(user, device) {
  const actions = ["publish", "subscribe", "send", "presence", "attach", "broadcast",
    "create-group"];
  const action = element("select", { name: "action" },
    ...actions.map((one) => element("option", {}, one)));
  const target = element("input", { name: "target", autocomplete: "off" });
  const answer = element("p", { role: "status" });
  main.append(element("section", { class: "card" }, element("h2", {}, "May this device …?"),
    element("form", {
      class: "row", onsubmit: reportingErrors(async () => {
        const reply = await request("GET", `${appPath()}/explain`,
          { query: { user, device, action: action.value, target: target.value } });
        const isAllowed = reply.reason == null;
        answer.className = isAllowed ? "good" : "bad";
        answer.textContent = isAllowed
          ? `Allowed${reply.right ? ` by ${reply.right}` : ""}.`
          : `Refused. Its rights (${reply.origin}): ${reply.rights.join(", ") || "none"}`;
      }),
    }, field("Action", action), field("Topic, filter or user", target),
      element("button", {}, "Explain")), answer));
}

/** The connections of a device, as far as the latest lines of the log tell. */
async function presenceCard(user, device) {
  const { lines } = await request("GET", "/log", { query: { limit: 1000 } });
  const value = (line, name) => line.fields.find((one) => one.name === name)?.value ?? "";
  const rows = lines.filter((line) => /^client_(dis)?connected$/.test(line.event)
    && value(line, "user") === user && value(line, "device") === device)
    .reverse().map((line) => [time(line.unixMilliseconds), line.event.replaceAll("_", " "),
      value(line, "address"), [value(line, "reason"), value(line, "detail")]
        .filter((word) => word).join(": ")]);
  return element("section", { "aria-label": "Connections" }, element("h2", {}, "Connections"),
    table("Connections", ["Time", "Event", "Address", "Reason"], rows,
      "The latest 1,000 lines of the log have no connection of this device."));
}

/** Starts a trace of a device and shows its packets as they pass. */
function traceCard(user, device) {
  const payloads = element("input", { type: "checkbox", name: "payloads" });
  const about = element("p", { role: "status", class: "quiet" });
  const list = element("div");
  const begin = button("Trace for a minute", start);
  let timer = 0;
  async function start() {
    if (!await confirmed(`Trace the packets of ${user}/${device} for a minute? Other operators `
      + "see that the trace is on.", "Start the trace")) return;
    begin.disabled = true;
    const { trace } = await request("POST", `${appPath()}/traces`,
      { content: { user, device, showsPayloads: payloads.checked, seconds: 60 } });
    whenLeft(() => {
      clearTimeout(timer);
      reportingErrors(() => request("DELETE", `/traces/${segment(trace)}`))();
    });
    const shown = [];
    let after = 0;
    const read = reportingErrors(async () => {
      const reply = await request("GET", `/traces/${segment(trace)}`, { query: { after } });
      after = reply.next;
      shown.push(...reply.packets);
      about.textContent = reply.end ? `The trace has ended: ${reply.end}.`
        : `The trace is on; ${counted(shown.length, "packet")} so far.`;
      list.replaceChildren(table("Packets", ["Time", "Direction", "Packet", "#Bytes", "Fields"],
        shown.slice(-200).reverse().map(packetRow), "No packet has passed yet."));
      begin.disabled = reply.end == null;
      if (reply.end == null) timer = setTimeout(read, 500);
      else whenLeft(() => {});
    });
    await read();
  }
  return element("section", { class: "card", "aria-label": "Trace" }, element("h2", {}, "Trace"),
    element("div", { class: "row" }, begin,
      element("label", { class: "check" }, payloads, "with the beginning of payloads")),
    about, list);
}

/** A packet of a trace: its members that have no column of their own follow as text. */
function packetRow(record) {
  const { number, unixMilliseconds, direction, connection, packet, byteCount, ...rest } = record;
  return [time(unixMilliseconds), direction, packet, byteCount == null ? "" : count(byteCount),
    Object.entries(rest).filter(([, value]) => value != null && value.length !== 0)
      .map(([name, value]) => `${name}=${[value].flat().join(",")}`).join("  ")];
}
