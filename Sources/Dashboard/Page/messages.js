// Messages that are kept for topics, groups, and messages sent by hand.

import { appPath, hasRole, request, segment } from "/api.js";
import { contentCard } from "/content.js";
import {
  button, bytes, confirmed, count, counted, element, field, main, reportingErrors, scrolling, showStatus,
  table, time, words,
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
      const owner = element("input", { name: "owner", required: true, autocomplete: "off" });
      const title = element("input", { name: "title", required: true, autocomplete: "off" });
      main.append(element("h1", {}, "Groups"), hasRole("operate") ? element("form", {
        class: "row", onsubmit: reportingErrors(async () => {
          await request("POST", `${appPath()}/groups`,
            { content: { owner: owner.value, title: title.value } });
          await load();
        }),
      }, field("Owner", owner), field("Title", title),
        element("button", { class: "primary" }, "Create a group")) : "", list);
      await load();
    },
  },

  group: {
    async show(id) {
      const group = await request("GET", `${appPath()}/groups/${segment(id)}`);
      const member = element("input", { name: "user", required: true, autocomplete: "off" });
      const path = (user) => `${appPath()}/groups/${segment(id)}/members/${segment(user)}`;
      const remove = (user, action) => async () => {
        if (!await confirmed(action === "ban"
          ? `Remove ${user} from the group, and let ${user} not join again?`
          : `Remove ${user} from the group?`, action === "ban" ? "Ban" : "Remove")) return;
        await request("DELETE", path(user), { query: { action } });
        await reopen();
      };
      const meta = element("textarea", { name: "meta", class: "code wide" }, group.meta);
      const allowed = element("textarea", { name: "allowed", class: "wide" },
        (group.allowed ?? []).join(", "));
      const change = (method, name, content) => async () => {
        await request(method, `${appPath()}/groups/${segment(id)}/${name}`,
          content ? { content: content() } : {});
        await reopen();
        showStatus("The group is changed.");
      };
      const erase = async () => {
        if (!await confirmed(`Delete the group ${group.title || id} with its history, and tell its `
          + `${counted(group.memberCount, "member")}?`, "Delete the group")) return;
        let reply;
        do {
          reply = await request("DELETE", `${appPath()}/groups/${segment(id)}`);
        } while (reply.hasMore);
        location.hash = "#groups";
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
            : hasRole("operate") ? element("div", { class: "actions" },
              button("Remove", remove(user, "kick"), "danger"),
              button("Ban", remove(user, "ban"), "danger")) : ""]),
        "This group has no members."));
      if (!hasRole("operate")) {
        main.append(element("section", { class: "card" }, element("h2", {}, "Data"),
          element("pre", {}, group.meta || "none")));
        return;
      }
      main.append(element("section", { class: "card" }, element("h2", {}, "Data"),
        element("label", { class: "wide" }, "Data of the group, which members are told", meta),
        element("p", {}, button("Replace the data",
          change("PUT", "meta", () => ({ meta: meta.value }))))),
      element("section", { class: "card" }, element("h2", {}, "Who may join"),
        element("label", { class: "wide" }, "Users, with commas between", allowed),
        element("div", { class: "row" }, button("Only these users",
          change("PUT", "allowed", () => ({ allowed: words(allowed.value) }))),
        button("Everybody", change("DELETE", "allowed")))),
      element("p", {}, button("Delete the group", erase, "danger")));
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
      const type = element("input", { name: "t", type: "number", min: 0, max: 255, value: 0 });
      const expiry = element("input", { name: "expiry", type: "number", min: 1 });
      const retained = element("input", { type: "checkbox", name: "retained" });
      const text = element("textarea", { name: "text", class: "wide" });
      const results = element("tbody");
      main.append(element("h1", {}, "Send a message"),
        element("form", {
          onsubmit: reportingErrors(async () => {
            const content = { from: from.value, grade: grade.value };
            if (kind.value === "users") content.users = words(to.value);
            else content[kind.value] = kind.value === "everybody" ? true : to.value;
            content[kind.value === "topic" ? "payload" : "b"] = text.value;
            if (kind.value === "topic") content.isRetained = retained.checked;
            else content.t = Number(type.value);
            if (expiry.value) content.expirySeconds = Number(expiry.value);
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
              const names = reply.refused.map((one) => one.user).join(", ");
              const refused = reply.refusedCount
                ? `, ${count(reply.refusedCount)} refused${names ? `: ${names}` : ""}` : "";
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
          field("Users with commas between, group or topic", to), field("Grade", grade),
          field("Type (t)", type), field("Seconds until it expires", expiry),
          element("label", { class: "check" }, retained, "retained, for a topic")),
        element("label", { class: "wide" }, "Text", text),
        element("p", {}, element("button", { class: "primary" }, "Send"))),
        scrolling("Sent messages", element("table", { "aria-label": "Sent messages" },
          element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Message"),
            element("th", { scope: "col" }, "Result"))), results)));
    },
  },
};
