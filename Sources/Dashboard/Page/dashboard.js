// The pages for operators. They use the HTTP API with the operator's token, which the browser keeps
// for this tab only. No cookie is set, so that another site can make no request in the operator's
// name.
"use strict";

const api = "/api/v1";
const store = window.sessionStorage;
const main = document.getElementById("main");

// --- Elements ---------------------------------------------------------------------------------

/** Makes an element. Text is never read as HTML. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

function field(text, input) {
  return element("label", {}, text, input);
}

function button(text, action, kind = "") {
  return element("button", { type: "button", class: kind, onclick: guarded(action) }, text);
}

function table(caption, columns, rows, emptyText) {
  if (rows.length === 0) return element("p", { class: "quiet" }, emptyText);
  const isNumber = (column) => column.startsWith("#");
  const head = columns.map((column) =>
    element("th", { scope: "col", class: isNumber(column) ? "number" : "" },
      column.replace("#", "")));
  const body = rows.map((row) => element("tr", {}, row.map((cell, index) =>
    element("td", { class: isNumber(columns[index]) ? "number" : "" }, cell ?? ""))));
  return element("div", { class: "card scroll" }, element("table", { "aria-label": caption },
    element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)));
}

// --- Words ------------------------------------------------------------------------------------

const count = (value) => Number(value).toLocaleString();
const counted = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

function bytes(value) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) { value /= 1024; index += 1; }
  return `${index === 0 ? value : value.toFixed(1)} ${units[index]}`;
}

function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  for (const [index, [name, size]] of units.entries()) {
    if (seconds < size && size > 1) continue;
    const rest = Math.floor((seconds % size) / (units[index + 1]?.[1] ?? 1));
    const next = units[index + 1]?.[0];
    return `${Math.floor(seconds / size)} ${name}` + (rest && next ? ` ${rest} ${next}` : "");
  }
}

/** In the zone of the reader. */
const time = (milliseconds) => new Date(milliseconds).toLocaleString();

// --- Status and confirmation ------------------------------------------------------------------

let statusTimer = 0;

function say(text) {
  const status = document.getElementById("status");
  status.replaceChildren(element("p", {}, text));
  clearTimeout(statusTimer);
  statusTimer = setTimeout(() => status.replaceChildren(), 8000);
}

/** Asks once, and names what is done. */
function confirmed(text, action) {
  const dialog = document.getElementById("confirmation");
  document.getElementById("confirmation-text").textContent = text;
  document.getElementById("confirmation-action").textContent = action;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirm"),
      { once: true });
  });
}

/** Shows what a failed action says. */
function guarded(action) {
  return async (event) => {
    event?.preventDefault?.();
    try {
      await action(event);
    } catch (error) {
      // The login says why a token is refused.
      if (error.status !== 401) say(error.message);
    }
  };
}

// --- The API ----------------------------------------------------------------------------------

class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function ask(method, path, { query = {}, content } = {}) {
  // An empty text is a value: the name of the device without a name.
  const search = Object.entries(query).filter(([, value]) => value != null)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  const headers = { Authorization: `Bearer ${store.getItem("token")}` };
  if (content) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(api + path + (search ? `?${search}` : ""),
      { method, headers, body: content && JSON.stringify(content), cache: "no-store" });
  } catch {
    throw new Refusal(0, "The broker does not answer.");
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    store.removeItem("token");
    showLogin(body.detail ?? "The token is not valid.");
  }
  if (!answer.ok) throw new Refusal(answer.status, body.detail ?? `Status ${answer.status}`);
  return body;
}

/** Exchanges the code of a link for a token, once. The address does not keep the code. */
async function signIn(code) {
  window.history.replaceState(null, "", location.pathname);
  let answer;
  try {
    answer = await fetch("/login",
      { method: "POST", headers: { Authorization: `Bearer ${code}` }, cache: "no-store" });
  } catch {
    return showLogin("The broker does not answer.");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) return showLogin(body.detail ?? `Status ${answer.status}`);
  store.setItem("token", body.token);
  return begin();
}

const roles = ["view", "operate", "own"];
/** The role of the token. */
let role = "view";
const may = (least) => roles.indexOf(role) >= roles.indexOf(least);

const segment = encodeURIComponent;
const appPath = () => `/apps/${segment(store.getItem("app") ?? "")}`;

// --- Pages ------------------------------------------------------------------------------------

let leavePage = () => {};

/** The samples of the overview, which go on while other pages are shown. */
const history = { samples: [], maximum: 120 };

async function sample() {
  const reply = await ask("GET", "/statistics");
  const values = Object.fromEntries(reply.counters.map((one) => [one.name, one.value]));
  history.samples.push({ at: performance.now(), values });
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

const pages = {
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
        cards.replaceChildren(...measures.map(measureCard));
      };
      await refresh();
      const timer = setInterval(() => refresh().catch((error) => say(error.message)), 2000);
      leavePage = () => clearInterval(timer);
    },
  },

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
        const reply = await ask("GET", `${appPath()}/sessions`,
          { query: { user: user.value || null, isConnected: state.value || null, after } });
        next = reply.next;
        const rows = reply.sessions.map((one) => [
          element("a", { href: `#device/${segment(one.user)}/${segment(one.device)}` },
            `${one.user}/${one.device}`),
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
      const form = element("form", { class: "row", onsubmit: guarded(() => load()) },
        field("User", user), field("State", state),
        element("button", { class: "primary" }, "Show"));
      main.append(element("h1", {}, "Devices"), form, list);
      await load();
    },
  },

  device: {
    async show(user, device) {
      main.append(element("h1", {}, `${user}/${device}`));
      const query = { user, device };
      const reply = await ask("GET", `${appPath()}/sessions`, { query });
      const session = reply.sessions.find((one) => one.user === user && one.device === device);
      if (!session) {
        main.append(element("p", {}, "This device has no session now."));
        return;
      }
      const facts = {
        Protocol: session.dialect,
        State: session.connectedUnixMilliseconds != null
          ? `connected since ${time(session.connectedUnixMilliseconds)}`
          : `disconnected for ${duration(session.awaySeconds ?? 0)}`,
        "Session ends": session.expirySeconds == null ? "never"
          : `${duration(session.expirySeconds)} after a disconnection`,
        "Keep alive": `${session.keepAliveSeconds} s`,
        "Waiting messages": `${count(session.queue.messageCount)}, `
          + bytes(session.queue.byteCount),
        "Refused or dropped": count(session.queue.overflowCount),
        "In delivery": count(session.underWayCount),
        Subscriptions: `${count(session.filterCount)}: ${session.filters.join(", ")}`,
        Groups: count(session.groupCount),
        Will: session.hasWill ? "set" : "none",
      };
      const change = (text, action, path, extra = {}) => async () => {
        if (!await confirmed(text, action)) return;
        await ask("DELETE", `${appPath()}/${path}`, { query: { ...query, ...extra } });
        say("Done.");
        await open(location.hash);
      };
      main.append(
        element("section", { class: "card" }, element("dl", {}, Object.entries(facts).flatMap(
          ([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))),
        may("operate") ? element("div", { class: "row" },
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
    },
  },

  retained: {
    title: "Retained",
    async show() {
      const filter = element("input", { name: "filter", autocomplete: "off", placeholder: "#" });
      const list = element("div");
      const shown = element("div");
      const look = (topic) => async () => {
        const reply = await ask("GET", `${appPath()}/retained/message`, { query: { topic } });
        shown.replaceChildren(contentCard(topic, reply.content));
      };
      const load = async (after) => {
        const reply = await ask("GET", `${appPath()}/retained`,
          { query: { filter: filter.value || null, after, limit: 100 } });
        list.replaceChildren(table("Retained messages",
          ["Topic", "From", "Grade", "#Size", "Time", "Expires", ""],
          reply.messages.map((one) => [one.topic, one.from, one.grade, bytes(one.byteCount),
            time(one.unixMilliseconds),
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            may("operate") ? button("Look", look(one.topic)) : ""]),
          "No retained message matches."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      const remove = async () => {
        const chosen = filter.value || "#";
        if (!await confirmed(`Delete all retained messages of topics that match ${chosen}?`,
          "Delete")) return;
        let total = 0;
        for (let hasMore = true; hasMore;) {
          const reply = await ask("DELETE", `${appPath()}/retained`, { query: { filter: chosen } });
          total += reply.messageCount;
          hasMore = reply.hasMore;
          say(`${counted(total, "retained message")} deleted${hasMore ? " so far" : ""}.`);
        }
        shown.replaceChildren();
        await load();
      };
      main.append(element("h1", {}, "Retained messages"),
        element("form", { class: "row", onsubmit: guarded(() => load()) },
          field("Filter of topics", filter), element("button", { class: "primary" }, "Show"),
          may("operate") ? button("Delete those that match", remove, "danger") : ""),
        shown, list);
      await load();
    },
  },

  groups: {
    title: "Groups",
    async show() {
      const list = element("div");
      const load = async (after) => {
        const reply = await ask("GET", `${appPath()}/groups`, { query: { after } });
        list.replaceChildren(table("Groups", ["Title", "Owner", "#Members", "May join", "Id"],
          reply.groups.map((one) => [
            element("a", { href: `#group/${segment(one.groupid)}` }, one.title || one.groupid),
            one.owner, count(one.memberCount), one.isLimited ? "users of its list" : "everybody",
            one.groupid]),
          "This app has no groups."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      main.append(element("h1", {}, "Groups"), list);
      await load();
    },
  },

  group: {
    async show(id) {
      const group = await ask("GET", `${appPath()}/groups/${segment(id)}`);
      const member = element("input", { name: "user", required: true, autocomplete: "off" });
      const path = (user) => `${appPath()}/groups/${segment(id)}/members/${segment(user)}`;
      const remove = (user) => async () => {
        if (!await confirmed(`Remove ${user} from the group?`, "Remove")) return;
        await ask("DELETE", path(user), { query: { action: "kick" } });
        await open(location.hash);
      };
      main.append(element("h1", {}, group.title || id),
        element("p", { class: "quiet" }, `Owned by ${group.owner}, `
          + `${counted(group.memberCount, "member")}, ${group.allowed ? "only users of its list may join" : "everybody may join"}.`),
        may("operate") ? element("form", {
          class: "row", onsubmit: guarded(async () => {
            await ask("PUT", path(member.value));
            await open(location.hash);
          }),
        }, field("User", member), element("button", { class: "primary" }, "Add")) : "",
        table("Members", ["User", ""], group.members.map((user) => [
          user, user === group.owner ? "owner"
            : may("operate") ? button("Remove", remove(user), "danger") : ""]),
        "This group has no members."));
    },
  },

  tokens: {
    title: "Tokens",
    async show() {
      const list = element("div");
      const made = element("div");
      const user = element("input", { name: "user", required: true, autocomplete: "off" });
      const days = element("input", { name: "days", type: "number", min: "1", value: "365" });
      const load = async (after) => {
        const reply = await ask("GET", `${appPath()}/tokens`, { query: { after } });
        const revoke = (one) => async () => {
          if (!await confirmed(`Revoke the token ${one.id} of ${one.user}? Its connections end.`,
            "Revoke")) return;
          await ask("DELETE", `${appPath()}/tokens`, { query: { id: one.id } });
          await load();
        };
        list.replaceChildren(table("Tokens",
          ["Id", "User", "Device", "Batch", "Expires", "Last used", ""],
          reply.tokens.map((one) => [one.id, one.user, one.device ?? "any", one.batch,
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            one.lastUsedUnixSeconds ? time(one.lastUsedUnixSeconds * 1000) : "never",
            may("operate") ? button("Revoke", revoke(one), "danger") : ""]),
          "This app has no tokens."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      main.append(element("h1", {}, "Tokens"),
        may("operate") ? element("form", {
          class: "row", onsubmit: guarded(async () => {
            const content = { users: [user.value] };
            if (days.value) content.expirySeconds = Number(days.value) * 86400;
            const reply = await ask("POST", `${appPath()}/tokens`, { content });
            made.replaceChildren(element("section", { class: "card" },
              element("p", {}, `The token of ${user.value}. It is shown only this once.`),
              element("p", { class: "secret" }, reply.tokens[0].token)));
            await load();
          }),
        }, field("User", user), field("Days until it expires; empty for never", days),
          element("button", { class: "primary" }, "Mint a token")) : "",
        made, list);
      await load();
    },
  },

  send: {
    title: "Send",
    role: "operate",
    async show() {
      const from = element("input", { name: "from", required: true, autocomplete: "off" });
      const kind = element("select", { name: "kind" },
        element("option", { value: "users" }, "users"),
        element("option", { value: "group" }, "group"),
        element("option", { value: "topic" }, "topic"),
        element("option", { value: "everybody" }, "everybody"));
      const to = element("input", { name: "to", autocomplete: "off" });
      const grade = element("select", { name: "grade" },
        ...["durable", "once", "transient"].map((one) => element("option", {}, one)));
      const text = element("textarea", { name: "text", class: "wide" });
      const results = element("tbody");
      main.append(element("h1", {}, "Send a message"),
        element("form", {
          onsubmit: guarded(async () => {
            const content = { from: from.value, grade: grade.value };
            if (kind.value === "users") content.users = to.value.split(",").map((one) => one.trim());
            else content[kind.value] = kind.value === "everybody" ? true : to.value;
            content[kind.value === "topic" ? "payload" : "b"] = text.value;
            const started = performance.now();
            const row = element("tr", {}, element("td", {}, text.value),
              element("td", {}, "waits for the acknowledgement"));
            results.prepend(row);
            const show = (outcome, isGood) => {
              row.lastChild.textContent = outcome;
              row.lastChild.className = isGood ? "good" : "bad";
            };
            try {
              const reply = await ask("POST", `${appPath()}/messages`, { content });
              const took = `${(performance.now() - started).toFixed(1)} ms`;
              const refused = reply.refusedCount ? `, ${count(reply.refusedCount)} refused` : "";
              show(reply.receiverCount === 0 ? `acknowledged after ${took}: nobody listens`
                : `acknowledged after ${took}: ${counted(reply.receiverCount, "receiver")}${refused}`,
              reply.receiverCount > 0 && !reply.refusedCount);
            } catch (error) {
              show(error.message, false);
            }
          }),
        },
        element("div", { class: "row" }, field("As user", from), field("To", kind),
          field("Names, separated by commas", to), field("Grade", grade)),
        element("label", { class: "wide" }, "Text", text),
        element("p", {}, element("button", { class: "primary" }, "Send"))),
        element("div", { class: "card scroll" }, element("table", { "aria-label": "Sent messages" },
          element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Message"),
            element("th", { scope: "col" }, "Result"))), results)));
    },
  },

  apps: {
    title: "Apps",
    async show() {
      const reply = await ask("GET", "/apps");
      const shown = await Promise.all(reply.apps.slice(0, 100).map((one) =>
        ask("GET", `/apps/${segment(one.app)}`)));
      main.append(element("h1", {}, "Apps"), table("Apps",
        ["App", "#Users", "#Tokens", "#Sessions", "#Connected", "#Groups", "Rights"],
        shown.map((one) => [one.app, count(one.userCount), count(one.tokenCount),
          count(one.sessionCount), count(one.connectionCount), count(one.groupCount),
          one.rights.join(", ")]),
        "There is no app; make one with: martlet app create NAME"));
    },
  },

  keys: {
    title: "Keys",
    async show() {
      const app = store.getItem("app");
      const list = element("div");
      const made = element("div");
      const name = element("input", { name: "name", required: true, autocomplete: "off" });
      const keyRole = element("select", { name: "role" },
        ...["view", "operate"].map((one) => element("option", {}, one)));
      const rights = element("input", { name: "rights", autocomplete: "off" });
      const days = element("input", { name: "days", type: "number", min: "1" });
      const load = async () => {
        const reply = await ask("GET", `${appPath()}/keys`);
        const revoke = (one) => async () => {
          if (!await confirmed(`Revoke the key ${one.name} of ${app}? It is refused from then on, `
            + "and its connections end.", "Revoke")) return;
          const ended = await ask("DELETE", `${appPath()}/keys/${segment(one.name)}`);
          made.replaceChildren();
          say(`The key ${one.name} is revoked; ${counted(ended.connectionCount, "connection")} ended.`);
          await load();
        };
        list.replaceChildren(table("Keys",
          ["Key", "Role", "Rights", "Made", "Expires", "Last used", ""],
          reply.keys.map((one) => [one.name, one.role,
            one.rights == null ? "those of its role" : one.rights.join(", ") || "none",
            one.madeUnixSeconds ? time(one.madeUnixSeconds * 1000) : "",
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            one.lastUsedUnixSeconds ? time(one.lastUsedUnixSeconds * 1000) : "never",
            may("own") ? button("Revoke", revoke(one), "danger") : ""]),
          "This app has no keys: its back ends cannot use the API."));
      };
      main.append(element("h1", {}, `Keys of ${app}`),
        may("own") ? element("form", {
          class: "row", onsubmit: guarded(async () => {
            const content = { name: name.value, role: keyRole.value };
            const words = rights.value.split(",").map((one) => one.trim()).filter((one) => one);
            if (words.length) content.rights = words;
            if (days.value) content.expirySeconds = Number(days.value) * 86400;
            const reply = await ask("POST", `${appPath()}/keys`, { content });
            made.replaceChildren(element("section", { class: "card" },
              element("p", {}, `The key ${name.value} of ${app}. It is shown only this once.`),
              element("p", { class: "secret" }, reply.key)));
            await load();
          }),
        }, field("Name", name), field("Role", keyRole),
          field("Rights, with commas between; empty for those of its role", rights),
          field("Days until it expires; empty for never", days),
          element("button", { class: "primary" }, "Add a key")) : "",
        made, list);
      await load();
    },
  },

  listeners: {
    title: "Listeners",
    async show() {
      const { listeners } = await ask("GET", "/listeners");
      const expiry = (one) => {
        const days = one.certificateDays;
        const isSoon = days <= 30;
        return element("span", { class: isSoon ? "bad" : "good" },
          days === 0 ? "less than a day" : isSoon ? `${counted(days, "day")}: renew it`
            : counted(days, "day"));
      };
      main.append(element("h1", {}, "Listeners"), table("Listeners",
        ["Address", "Serves", "#Connections", "Certificate", "Expires", "Left"],
        listeners.map((one) => [`${one.scheme}://${one.address}`, one.parts.join(", "),
          count(one.connectionCount), one.certificateSubject ?? "none",
          one.certificateDays == null ? "" : time(one.certificateExpiresUnixSeconds * 1000),
          one.certificateDays == null ? "" : expiry(one)]),
        "There is no listener."));
    },
  },

  refusals: {
    title: "Refusals",
    async show() {
      const columns = ["Time", "Event", "Address", "User", "Reason", "About", "Detail"];
      const about = element("p", { class: "quiet" });
      const list = element("div");
      main.append(element("h1", {}, "Refusals"), about, list);
      let shown = [];
      let last = null;
      const refresh = async () => {
        const reply = await ask("GET", "/refusals", { query: { after: last, limit: 200 } });
        // A broker that was started again counts from the beginning.
        if (last != null && reply.last < last) shown = [];
        const isNew = last == null || reply.refusals.length > 0 || reply.last < last;
        last = reply.refusals.at(-1)?.number ?? reply.last;
        if (!isNew) return;
        shown = [...shown, ...reply.refusals].slice(-200);
        about.textContent = `The latest ${counted(shown.length, "refusal")} of `
          + `${count(reply.last)} since the start, the newest first.`;
        list.replaceChildren(table("Refusals", columns, [...shown].reverse().map((one) => [
          time(one.unixMilliseconds), one.event.replaceAll("_", " "), one.address ?? "",
          [one.user, one.device].filter((name) => name != null).join("/"),
          [one.reason, one.code].filter((word) => word != null).join(" "), one.subject ?? "",
          one.detail ?? ""]), "Nobody was refused since the start."));
      };
      await refresh();
      const timer = setInterval(() => refresh().catch((error) => say(error.message)), 2000);
      leavePage = () => clearInterval(timer);
    },
  },

  log: {
    title: "Log",
    async show() {
      const about = element("p", { class: "quiet" });
      const list = element("div");
      main.append(element("h1", {}, "Log"), about, list);
      let shown = [];
      let last = null;
      const refresh = async () => {
        const reply = await ask("GET", "/log", { query: { after: last, limit: 200 } });
        // A broker that was started again counts from the beginning.
        if (last != null && reply.last < last) shown = [];
        const isNew = last == null || reply.lines.length > 0 || reply.last < last;
        last = reply.lines.at(-1)?.number ?? reply.last;
        if (!isNew) return;
        shown = [...shown, ...reply.lines].slice(-200);
        about.textContent = `The latest ${counted(shown.length, "line")}, the newest first; `
          + "new ones appear as they are written.";
        list.replaceChildren(table("Log", ["Time", "Level", "Event", "Fields"],
          [...shown].reverse().map((line) => [
            time(line.unixMilliseconds), line.level, line.event.replaceAll("_", " "),
            line.fields.filter((field) => field.value !== "")
              .map((field) => `${field.name}=${field.value}`).join("  ")]),
          "The log is empty."));
      };
      await refresh();
      const timer = setInterval(() => refresh().catch((error) => say(error.message)), 1000);
      leavePage = () => clearInterval(timer);
    },
  },

  broker: {
    title: "Broker",
    async show() {
      main.append(element("h1", {}, "Broker"), backupCard());
      if (!may("own")) return;
      const level = element("select", { name: "level" },
        ...["error", "warning", "info", "debug"].map((one) =>
          element("option", { selected: one === "info" }, one)));
      const outcome = element("p", { role: "status" });
      const show = (text, isGood) => {
        outcome.className = isGood ? "good" : "bad";
        outcome.textContent = text;
      };
      main.append(
        element("section", { class: "card" }, element("h2", {}, "Configuration"),
          element("p", { class: "quiet" }, "Reads the configuration, certificates, keys and lists "
            + "again. If one has an error, nothing changes."),
          button("Reload", async () => {
            if (!await confirmed("Read the configuration and its files again, and apply what has "
              + "changed?", "Reload")) return;
            try {
              const reply = await ask("POST", "/reload");
              show(`Reloaded. Changed: ${reply.changed.join(", ") || "nothing"}.`
                + (reply.needsRestart.length
                  ? ` A restart is needed for ${reply.needsRestart.join(", ")}.` : ""), true);
            } catch (error) {
              show(error.message, false);
            }
          }), outcome),
        element("section", { class: "card" }, element("h2", {}, "Log"),
          element("form", {
            class: "row", onsubmit: guarded(async () => {
              if (!await confirmed(`Change the level of the log to ${level.value} until the next `
                + "reload or restart?", "Change the level")) return;
              const reply = await ask("PUT", "/log-level", { content: { level: level.value } });
              say(`The level is ${level.value}; it was ${reply.previous}.`);
            }),
          }, field("Level", level), element("button", {}, "Change"))));
    },
  },

  operators: {
    title: "Operators",
    role: "own",
    async show() {
      const reply = await ask("GET", "/operators");
      const remove = (name) => async () => {
        if (!await confirmed(`Remove the operator ${name}? The token is refused from then on.`,
          "Remove")) return;
        await ask("DELETE", `/operators/${segment(name)}`);
        await open(location.hash);
      };
      main.append(element("h1", {}, "Operators"), table("Operators",
        ["Operator", "Role", "Made", "Expires", ""],
        reply.operators.map((one) => [one.operator, one.role, time(one.madeUnixSeconds * 1000),
          one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
          button("Remove", remove(one.operator), "danger")]), "There is no operator."));
    },
  },
};

/** The content of a message, as text where it is text. */
function contentCard(title, content) {
  return element("section", { class: "card", "aria-label": "Content" }, element("h2", {}, title),
    element("pre", {}, content.text ?? content.base64),
    element("p", { class: "quiet" }, `${content.text == null ? "In base64, " : ""}`
      + `${bytes(content.byteCount)}${content.isCut ? ", of which this is the beginning" : ""}`));
}

/** The messages that wait for a device. */
function queueCard(user, device) {
  const list = element("div");
  const shown = element("div");
  const path = `${appPath()}/users/${segment(user)}/queue`;
  const look = (one) => async () => {
    const reply = await ask("GET", `${path}/contents`,
      { query: { device, after: one.number - 1, limit: 1 } });
    const found = reply.messages.find((other) => other.number === one.number);
    if (!found?.content) throw new Error("The message is not in the queue any more.");
    shown.replaceChildren(contentCard(`Message ${one.number} from ${one.from}`, found.content));
  };
  const drop = (one) => async () => {
    if (!await confirmed(`Drop message ${one.number} from ${one.from}, which waits for `
      + `${user}/${device}? It is lost.`, "Drop the message")) return;
    await ask("DELETE", `${path}/messages/${one.number}`, { query: { device } });
    shown.replaceChildren();
    await load();
    say("The message is dropped.");
  };
  async function load(after) {
    const reply = await ask("GET", `${path}/messages`, { query: { device, after, limit: 50 } });
    list.replaceChildren(table("Waiting messages",
      ["#Number", "From", "To", "Grade", "#Size", "Time", "Expires", ""],
      reply.messages.map((one) => [count(one.number), one.from, one.topic ?? one.groupid ?? one.kind,
        one.grade, bytes(one.byteCount), time(one.unixMilliseconds),
        one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
        may("operate") ? element("div", { class: "actions" }, button("Look", look(one)),
          button("Drop", drop(one), "danger")) : ""]),
      "No message waits."));
    if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
  }
  guarded(load)();
  return element("section", { "aria-label": "Queue" }, element("h2", {}, "Queue"), shown, list);
}

/** The last backup with its progress, and the form that starts one. */
function backupCard() {
  const text = element("p", { role: "status" }, "…");
  const bar = element("progress", { max: "1", value: "0", "aria-label": "Progress of the backup" });
  bar.hidden = true;
  const card = element("section", { class: "card" }, element("h2", {}, "Backup"), text, bar);
  const directory = element("input",
    { name: "directory", required: true, autocomplete: "off", placeholder: "/var/backups/martlet" });
  let timer = 0;
  leavePage = () => clearTimeout(timer);
  const show = (status) => {
    bar.hidden = status.isFinished;
    bar.value = status.readByteCount / Math.max(status.totalByteCount, 1);
    text.className = status.failure || status.findings.length ? "bad" : "";
    text.textContent = !status.isFinished
      ? `Copies into ${status.directory}: ${bytes(status.readByteCount)} of at most `
        + bytes(status.totalByteCount)
      : status.failure ? `The backup into ${status.directory} failed: ${status.failure}`
        : `${status.directory} has a backup of ${bytes(status.byteCount)}`
          + (status.findings.length
            ? `, and the store is damaged: ${status.findings[0]}` : ", which was checked.");
    if (!status.isFinished) timer = setTimeout(guarded(refresh), 500);
  };
  async function refresh() {
    try {
      show(await ask("GET", "/backups/last"));
    } catch (error) {
      if (error.status !== 404) throw error;
      text.textContent = "The broker has made no backup since it started.";
    }
  }
  if (may("own")) {
    card.append(element("form", {
      class: "row", onsubmit: guarded(async () => {
        if (!await confirmed(`Copy the store into ${directory.value} on the broker's machine?`,
          "Start the backup")) return;
        clearTimeout(timer);
        show(await ask("POST", "/backups", { content: { directory: directory.value } }));
      }),
    }, field("Directory on the broker's machine, new or empty", directory),
    element("button", {}, "Back up")));
  }
  guarded(refresh)();
  return card;
}

/** The form that shows which right allows an action of a device. */
function explain(user, device) {
  const actions = ["publish", "subscribe", "send", "presence", "broadcast", "create-group"];
  const action = element("select", { name: "action" },
    ...actions.map((one) => element("option", {}, one)));
  const target = element("input", { name: "target", autocomplete: "off" });
  const answer = element("p", { role: "status" });
  main.append(element("section", { class: "card" }, element("h2", {}, "May this device …?"),
    element("form", {
      class: "row", onsubmit: guarded(async () => {
        const reply = await ask("GET", `${appPath()}/explain`,
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

// --- Login and navigation ---------------------------------------------------------------------

function showLogin(message = "") {
  leavePage();
  leavePage = () => {};
  history.samples = [];
  document.getElementById("header").hidden = true;
  const token = element("input",
    { type: "password", name: "token", required: true, autocomplete: "off", class: "wide" });
  main.replaceChildren(element("form", {
    class: "card login", onsubmit: guarded(async () => {
      store.setItem("token", token.value.trim());
      await begin();
    }),
  }, element("h1", {}, "Martlet"), element("label", { class: "wide" }, "Operator's token", token),
    element("p", { class: "bad", role: "alert" }, message),
    element("p", {}, element("button", { class: "primary" }, "Sign in")),
    element("p", { class: "quiet" }, "On the broker's machine, martlet dashboard prints a link "
      + "that signs in, and martlet operator add NAME --role ROLE a token.")));
  token.focus();
}

let opening = 0;

async function open(hash) {
  const [name, ...parts] = (hash.replace(/^#/, "") || "overview").split("/")
    .map(decodeURIComponent);
  const page = Object.hasOwn(pages, name) ? pages[name] : pages.overview;
  leavePage();
  leavePage = () => {};
  opening += 1;
  const own = opening;
  main.replaceChildren();
  document.title = `${page.title ?? parts.join("/")} · Martlet`;
  for (const link of document.querySelectorAll("#navigation a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    if (!may(page.role ?? "view")) throw new Error(`This page needs the role ${page.role}.`);
    await page.show(...parts);
  } catch (error) {
    if (own !== opening || error.status === 401) return;
    main.append(element("p", { class: "bad", role: "alert" }, error.message));
  }
}

async function begin() {
  ({ role } = await ask("GET", "/me"));
  for (const link of document.querySelectorAll("#navigation a")) {
    link.hidden = !may(pages[link.hash.slice(1)].role ?? "view");
  }
  const reply = await ask("GET", "/apps");
  const select = document.getElementById("app");
  select.replaceChildren(...reply.apps.map((one) => element("option", {}, one.app)));
  const names = reply.apps.map((one) => one.app);
  if (!names.includes(store.getItem("app"))) store.setItem("app", names[0] ?? "");
  select.value = store.getItem("app");
  document.getElementById("header").hidden = false;
  await open(location.hash);
  // A page begins at its top, with the links to the others in sight.
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

document.getElementById("navigation").append(...Object.entries(pages)
  .filter(([, page]) => page.title)
  .map(([name, page]) => element("a", { href: `#${name}` }, page.title)));
document.getElementById("app").addEventListener("change", (event) => {
  store.setItem("app", event.target.value);
  open(location.hash);
});
document.getElementById("sign-out").addEventListener("click", () => {
  store.removeItem("token");
  showLogin();
});
/** The code of a link; nothing for the name of a page. */
const linkCode = () => location.hash.match(/^#login=([\w]+)$/)?.[1];

function start() {
  if (linkCode()) guarded(() => signIn(linkCode()))();
  else if (store.getItem("token")) guarded(begin)();
  else showLogin();
}

window.addEventListener("hashchange", () => {
  if (linkCode()) start();
  else if (store.getItem("token")) open(location.hash);
});
start();
