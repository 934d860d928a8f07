// Messages that are kept for topics, groups, and messages sent by hand.

import { appPath, hasRole, request, segment } from "/api.js";
import { contentCard } from "/content.js";
import {
  button, bytes, confirmed, count, counted, element, field, main, reportingErrors, showStatus,
  table, time,
} from "/elements.js";
import { reopen } from "/navigation.js";

export const pages = {
  retained: {
    title: "Retained",
    async show() {
      const filter = element("input", { name: "filter", autocomplete: "off", placeholder: "#" });
      const list = element("div");
      const shown = element("div");
      const look = (topic) => async () => {
        const reply = await request("GET", `${appPath()}/retained/message`, { query: { topic } });
        shown.replaceChildren(contentCard(topic, reply.content));
      };
      const load = async (after) => {
        const reply = await request("GET", `${appPath()}/retained`,
          { query: { filter: filter.value || null, after, limit: 100 } });
        list.replaceChildren(table("Retained messages",
          ["Topic", "From", "Grade", "#Size", "Time", "Expires", ""],
          reply.messages.map((one) => [one.topic, one.from, one.grade, bytes(one.byteCount),
            time(one.unixMilliseconds),
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            hasRole("operate") ? button("Look", look(one.topic)) : ""]),
          "No retained message matches."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      const remove = async () => {
        const chosen = filter.value || "#";
        if (!await confirmed(`Delete all retained messages of topics that match ${chosen}?`,
          "Delete")) return;
        let total = 0;
        for (let hasMore = true; hasMore;) {
          const reply = await request("DELETE", `${appPath()}/retained`,
            { query: { filter: chosen } });
          total += reply.messageCount;
          hasMore = reply.hasMore;
          showStatus(`${counted(total, "retained message")} deleted${hasMore ? " so far" : ""}.`);
        }
        shown.replaceChildren();
        await load();
      };
      main.append(element("h1", {}, "Retained messages"),
        element("form", { class: "row", onsubmit: reportingErrors(() => load()) },
          field("Filter of topics", filter), element("button", { class: "primary" }, "Show"),
          hasRole("operate") ? button("Delete those that match", remove, "danger") : ""),
        shown, list);
      await load();
    },
  },

  groups: {
    title: "Groups",
    async show() {
      const list = element("div");
      const load = async (after) => {
        const reply = await request("GET", `${appPath()}/groups`, { query: { after } });
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
      const group = await request("GET", `${appPath()}/groups/${segment(id)}`);
      const member = element("input", { name: "user", required: true, autocomplete: "off" });
      const path = (user) => `${appPath()}/groups/${segment(id)}/members/${segment(user)}`;
      const remove = (user) => async () => {
        if (!await confirmed(`Remove ${user} from the group?`, "Remove")) return;
        await request("DELETE", path(user), { query: { action: "kick" } });
        await reopen();
      };
      main.append(element("h1", {}, group.title || id),
        element("p", { class: "quiet" }, `Owned by ${group.owner}, `
          + `${counted(group.memberCount, "member")}, `
          + `${group.allowed ? "only users of its list" : "everybody"} may join.`),
        hasRole("operate") ? element("form", {
          class: "row", onsubmit: reportingErrors(async () => {
            await request("PUT", path(member.value));
            await reopen();
          }),
        }, field("User", member), element("button", { class: "primary" }, "Add")) : "",
        table("Members", ["User", ""], group.members.map((user) => [
          user, user === group.owner ? "owner"
            : hasRole("operate") ? button("Remove", remove(user), "danger") : ""]),
        "This group has no members."));
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
          onsubmit: reportingErrors(async () => {
            const content = { from: from.value, grade: grade.value };
            const names = to.value.split(",").map((one) => one.trim());
            if (kind.value === "users") content.users = names;
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
              const reply = await request("POST", `${appPath()}/messages`, { content });
              const took = `${(performance.now() - started).toFixed(1)} ms`;
              const refused = reply.refusedCount ? `, ${count(reply.refusedCount)} refused` : "";
              show(reply.receiverCount === 0 ? `acknowledged after ${took}: nobody listens`
                : `acknowledged after ${took}: `
                  + `${counted(reply.receiverCount, "receiver")}${refused}`,
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
};
