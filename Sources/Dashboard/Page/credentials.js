// What clients, back ends and operators log in with.

import { appPath, hasRole, request, segment, store } from "/api.js";
import {
  button, confirmed, count, counted, element, field, main, reportingErrors, showStatus, table,
  time,
} from "/elements.js";
import { reopen } from "/navigation.js";

export const pages = {
  tokens: {
    title: "Tokens",
    async show() {
      const list = element("div");
      const made = element("div");
      const user = element("input", { name: "user", required: true, autocomplete: "off" });
      const days = element("input", { name: "days", type: "number", min: "1", value: "365" });
      const load = async (after) => {
        const reply = await request("GET", `${appPath()}/tokens`, { query: { after } });
        const revoke = (one) => async () => {
          if (!await confirmed(`Revoke the token ${one.id} of ${one.user}? Its connections end.`,
            "Revoke")) return;
          await request("DELETE", `${appPath()}/tokens`, { query: { id: one.id } });
          await load();
        };
        list.replaceChildren(table("Tokens",
          ["Id", "User", "Device", "Batch", "Expires", "Last used", ""],
          reply.tokens.map((one) => [one.id, one.user, one.device ?? "any", one.batch,
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            one.lastUsedUnixSeconds ? time(one.lastUsedUnixSeconds * 1000) : "never",
            hasRole("operate") ? button("Revoke", revoke(one), "danger") : ""]),
          "This app has no tokens."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      main.append(element("h1", {}, "Tokens"),
        hasRole("operate") ? element("form", {
          class: "row", onsubmit: reportingErrors(async () => {
            const content = { users: [user.value] };
            if (days.value) content.expirySeconds = Number(days.value) * 86400;
            const reply = await request("POST", `${appPath()}/tokens`, { content });
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

  apps: {
    title: "Apps",
    async show() {
      const reply = await request("GET", "/apps");
      const shown = await Promise.all(reply.apps.slice(0, 100).map((one) =>
        request("GET", `/apps/${segment(one.app)}`)));
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
        const reply = await request("GET", `${appPath()}/keys`);
        const revoke = (one) => async () => {
          if (!await confirmed(`Revoke the key ${one.name} of ${app}? It is refused from then on, `
            + "and its connections end.", "Revoke")) return;
          const ended = await request("DELETE", `${appPath()}/keys/${segment(one.name)}`);
          made.replaceChildren();
          showStatus(`The key ${one.name} is revoked; `
            + `${counted(ended.connectionCount, "connection")} ended.`);
          await load();
        };
        list.replaceChildren(table("Keys",
          ["Key", "Role", "Rights", "Made", "Expires", "Last used", ""],
          reply.keys.map((one) => [one.name, one.role,
            one.rights == null ? "those of its role" : one.rights.join(", ") || "none",
            one.madeUnixSeconds ? time(one.madeUnixSeconds * 1000) : "",
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            one.lastUsedUnixSeconds ? time(one.lastUsedUnixSeconds * 1000) : "never",
            hasRole("own") ? button("Revoke", revoke(one), "danger") : ""]),
          "This app has no keys: its back ends cannot use the API."));
      };
      main.append(element("h1", {}, `Keys of ${app}`),
        hasRole("own") ? element("form", {
          class: "row", onsubmit: reportingErrors(async () => {
            const content = { name: name.value, role: keyRole.value };
            const words = rights.value.split(",").map((one) => one.trim()).filter((one) => one);
            if (words.length) content.rights = words;
            if (days.value) content.expirySeconds = Number(days.value) * 86400;
            const reply = await request("POST", `${appPath()}/keys`, { content });
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

  operators: {
    title: "Operators",
    role: "own",
    async show() {
      const reply = await request("GET", "/operators");
      const remove = (name) => async () => {
        if (!await confirmed(`Remove the operator ${name}? The token is refused from then on.`,
          "Remove")) return;
        await request("DELETE", `/operators/${segment(name)}`);
        await reopen();
      };
      main.append(element("h1", {}, "Operators"), table("Operators",
        ["Operator", "Role", "Made", "Expires", ""],
        reply.operators.map((one) => [one.operator, one.role, time(one.madeUnixSeconds * 1000),
          one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
          button("Remove", remove(one.operator), "danger")]), "There is no operator."));
    },
  },
};
