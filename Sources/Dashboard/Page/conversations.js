// Conversations of a user: what is unread in each, the kept messages, and a search among them; and
// the topics that have kept messages.

import { appPath, request, segment } from "/api.js";
import { button, confirmed, count, element, field, main, reportingErrors, showStatus, table,
  time } from "/elements.js";
import { showReceipts } from "/receipts.js";

/** The milliseconds of a field with a local time; nothing if it is empty. */
const moment = (input) => input.value ? new Date(input.value).getTime() : null;

export const pages = {
  conversations: {
    title: "Conversations",
    role: "operate",
    async show(user = "") {
      const name = element("input",
        { name: "user", required: true, autocomplete: "off", value: user });
      const unread = element("input", { type: "checkbox", name: "unread" });
      const list = element("div");
      const link = (one) => element("a", {
        href: `#history/${one.groupid == null ? "users" : "groups"}/`
          + `${segment(one.groupid ?? name.value)}/${segment(one.user ?? "")}`,
      }, one.groupid == null ? one.user : `group ${one.groupid}`);
      const load = async (after) => {
        const reply = await request("GET",
          `${appPath()}/users/${segment(name.value)}/conversations`,
          { query: { after, isUnreadOnly: unread.checked || null, limit: 100 } });
        list.replaceChildren(table("Conversations", ["With", "#Newest", "#Read", "#Unread"],
          reply.conversations.map((one) => [link(one), count(one.lastNumber),
            count(one.readThrough), count(one.unreadCount)]),
          reply.next == null ? "Nothing is kept for this user." : "None on this page."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      main.append(element("h1", {}, "Conversations"),
        element("form", { class: "row", onsubmit: reportingErrors(() => load()) },
          field("User", name),
          element("label", { class: "check" }, unread, "with unread messages"),
          element("button", { class: "primary" }, "Show")), list);
      const topics = element("div");
      main.append(element("h2", {}, "Topics"), topics);
      const loadTopics = async (after) => {
        const reply = await request("GET", `${appPath()}/topics`, { query: { after, limit: 100 } });
        topics.replaceChildren(table("Topics with kept messages",
          ["Topic", "#Newest", "#Messages", "#Bytes"],
          reply.topics.map((one) => [
            element("a", { href: `#history/topics/${segment(one.topic)}` }, one.topic),
            count(one.lastNumber), count(one.messageCount), count(one.byteCount)]),
          "No topic of this app has kept messages."));
        if (reply.next != null) topics.append(button("More topics", () => loadTopics(reply.next)));
      };
      await loadTopics();
      if (user) await load();
    },
  },

  history: {
    role: "operate",
    async show(kind, name, other) {
      const [isGroup, isTopic] = [kind === "groups", kind === "topics"];
      const path = isTopic ? `${appPath()}/topics/history`
        : `${appPath()}/${isGroup ? "groups" : "users"}/${segment(name)}/history`
          + (isGroup ? "" : `/${segment(other)}`);
      const topic = isTopic ? name : null;
      const input = (label, type = "text") => element("input",
        { name: label, type, autocomplete: "off" });
      const [search, from] = [input("search"), input("from")];
      const [since, until] = [input("since", "datetime-local"), input("until", "datetime-local")];
      const [list, receipts] = [element("div"), element("div")];
      const remove = (number) => async () => {
        if (!await confirmed(`Remove message ${number} for all readers?`, "Remove")) return;
        await request("DELETE", `${path}/${number}`, { query: { topic } });
        await load();
        showStatus(`Message ${number} is removed.`);
      };
      const load = async (before) => {
        const reply = await request("GET", path, { query: {
          topic, before, limit: 100, search: search.value || null, from: from.value || null,
          sinceUnixMilliseconds: moment(since), untilUnixMilliseconds: moment(until),
        } });
        const receiptsButton = (one) => one.reference == null ? null
          : button("Receipts", () => showReceipts(receipts, one.reference));
        list.replaceChildren(table("Kept messages", ["#Number", "From", "Time", "Message", "", ""],
          reply.messages.map((one) => [count(one.number), one.from, time(one.unixMilliseconds),
            `${one.content.text ?? one.content.base64}${one.content.isCut ? "…" : ""}`,
            receiptsButton(one), button("Remove", remove(one.number), "danger")]),
          reply.next == null ? "No message is found." : "No message is found on this page."));
        if (reply.next != null) list.append(button("Older messages", () => load(reply.next)));
      };
      const title = isTopic ? `Topic ${name}` : isGroup ? `Group ${name}` : `${name} and ${other}`;
      main.append(element("h1", {}, title),
        element("form", { class: "row", onsubmit: reportingErrors(() => load()) },
          field("Text", search), field("From", from), field("Since", since),
          field("Before", until), element("button", { class: "primary" }, "Search")), list,
        receipts);
      await load();
    },
  },
};
