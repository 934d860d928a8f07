// What clients, back ends and operators log in with.

import { appPath, hasRole, request, segment, store } from "/api.js";
import {
  button, confirmed, count, counted, element, field, main, reportingErrors, secretCard,
  showStatus, table, time, words,
} from "/elements.js";
import { reopen } from "/navigation.js";

/** Tokens of one request when many are minted. */
const mintedAtOnce = 500;

export const pages = {
  tokens: {
    title: "Tokens",
    async show() {
      const list = element("div");
      const made = element("div");
      const user = element("textarea", { name: "user", required: true, rows: 1 });
      const days = element("input", { name: "days", type: "number", min: "1", value: "365" });
      const batch = element("input", { name: "batch", autocomplete: "off" });
      const bar = element("progress", { max: "1", value: "0", "aria-label": "Minted tokens" });
      bar.hidden = true;
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
      /** In pieces, so that a long list shows its progress and delays nobody. */
      const mint = async (users) => {
        const lines = [];
        bar.hidden = users.length <= mintedAtOnce;
        try {
          for (let first = 0; first < users.length; first += mintedAtOnce) {
            const content = { users: users.slice(first, first + mintedAtOnce) };
            if (days.value) content.expirySeconds = Number(days.value) * 86400;
            if (batch.value) content.batch = batch.value;
            const reply = await request("POST", `${appPath()}/tokens`, { content });
            lines.push(...reply.tokens.map((one) => `${one.user},${one.id},${one.token}`));
            bar.value = lines.length / users.length;
          }
        } finally {
          bar.hidden = true;
          if (lines.length === 1) {
            made.replaceChildren(secretCard(`The token of ${users[0]}. It is shown only this once.`,
              lines[0].split(",").at(-1)));
          } else if (lines.length > 1) {
            made.replaceChildren(secretCard(`${counted(lines.length, "token")}, shown only this `
              + "once: user, id and token in each line.", lines.join("\n")));
          }
        }
      };
      main.append(element("h1", {}, "Tokens"),
        hasRole("operate") ? element("form", {
          class: "row", onsubmit: reportingErrors(async () => {
            await mint(words(user.value));
            await load();
          }),
        }, field("Users, with commas or line ends between", user), field("Batch", batch),
          field("Days until it expires; empty for never", days),
          element("button", { class: "primary" }, "Mint tokens")) : "",
        bar, made, list);
      await load();
    },
  },

  passwords: {
    title: "Passwords",
    async show() {
      const app = store.getItem("app");
      const list = element("div");
      const name = element("input", { name: "name", required: true, autocomplete: "off" });
      const password = element("input",
        { name: "password", type: "password", required: true, autocomplete: "new-password" });
      const user = element("input", { name: "user", autocomplete: "off" });
      const rights = element("input", { name: "rights", autocomplete: "off" });
      const days = element("input", { name: "days", type: "number", min: "1" });
      let shown = [];
      const load = async (after) => {
        const reply = await request("GET", `${appPath()}/passwords`, { query: { after } });
        const revoke = (one) => async () => {
          if (!await confirmed(`Revoke the password ${one.name} of ${app}? It is refused from then `
            + "on, and its connections end.", "Revoke")) return;
          const ended = await request("DELETE", `${appPath()}/passwords/${segment(one.name)}`);
          showStatus(`The password ${one.name} is revoked; `
            + `${counted(ended.connectionCount, "connection")} ended.`);
          await load();
        };
        const change = (one) => () => {
          name.value = one.name;
          user.value = one.user;
          rights.value = (one.rights ?? []).join(", ");
          password.focus();
        };
        shown = reply.passwords;
        list.replaceChildren(table("Passwords",
          ["Name", "User", "Device", "Kind", "Rights", "Set", "Expires", "Last used", ""],
          reply.passwords.map((one) => [one.name, one.user, one.device ?? "any", one.kind,
            one.rights == null ? "those of the app" : one.rights.join(", ") || "none",
            time(one.madeUnixSeconds * 1000),
            one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
            one.lastUsedUnixSeconds ? time(one.lastUsedUnixSeconds * 1000) : "never",
            hasRole("operate") ? element("span", {}, button("Change", change(one)), " ",
              button("Revoke", revoke(one), "danger")) : ""]),
          "This app has no passwords."));
        if (reply.next != null) list.append(button("Next page", () => load(reply.next)));
      };
      const set = async () => {
        const known = shown.find((one) => one.name === name.value);
        if (known && !await confirmed(`Replace the password ${name.value} of ${app}? The `
          + "connections of the earlier one end.", "Replace")) return;
        // The list shows a page: one of another page has a device, rights and an expiry, too.
        const content = { password: password.value, keepsTerms: true };
        if (user.value) content.user = user.value;
        const chosen = words(rights.value);
        if (chosen.length) content.rights = chosen;
        else if (known?.rights != null) {
          // Its rights were taken out of the form: it gets those of the app, and keeps the rest.
          content.keepsTerms = false;
          if (known.device != null) content.device = known.device;
          if (known.expiresUnixSeconds != null) {
            content.expirySeconds =
              Math.max(1, known.expiresUnixSeconds - Math.floor(Date.now() / 1000));
          }
        }
        if (days.value) content.expirySeconds = Number(days.value) * 86400;
        const reply = await request("PUT", `${appPath()}/passwords/${segment(name.value)}`,
          { content });
        password.value = "";
        showStatus(`The password ${name.value} is set; `
          + `${counted(reply.connectionCount, "connection")} ended.`);
        await load();
      };
      main.append(element("h1", {}, `Passwords of ${app}`),
        hasRole("operate") ? element("form", { class: "row", onsubmit: reportingErrors(set) },
          field("User name", name), field("Password", password),
          field("Logs in as; empty for the same", user),
          field("Rights, with commas between; empty for those it has, or those of the app", rights),
          field("Days until it expires; empty for as before, or never", days),
          element("button", { class: "primary" }, "Set the password")) : "",
        list);
      await load();
    },
  },

  apps: {
    title: "Apps",
    async show() {
      const reply = await request("GET", "/apps");
      const shown = await Promise.all(reply.apps.slice(0, 100).map((one) =>
        request("GET", `/apps/${segment(one.app)}`)));
      const name = element("input", { name: "app", required: true, autocomplete: "off" });
      const rights = element("textarea", { name: "rights", rows: 1 });
      const made = element("div");
      const isKnown = () => reply.apps.some((one) => one.app === name.value);
      const create = reportingErrors(async () => {
        const content = { app: name.value };
        if (rights.value) content.rights = words(rights.value);
        const { key } = await request("POST", "/apps", { content });
        made.replaceChildren(secretCard(
          `The app ${name.value} and its first key. The key is shown only this once.`, key));
      });
      const replace = async () => {
        const chosen = words(rights.value);
        if (!isKnown()) throw new Error(`There is no app ${name.value}.`);
        if (!await confirmed(`Replace the rights of all users of ${name.value} by: `
          + `${chosen.join(", ") || "none"}?`, "Replace the rights")) return;
        await request("PUT", `/apps/${segment(name.value)}/rights`,
          { content: { rights: chosen } });
        await reopen();
      };
      main.append(element("h1", {}, "Apps"), hasRole("own") ? element("form",
        { class: "row", onsubmit: create }, field("App", name),
        field("Rights of its users, with commas between", rights),
        element("button", { class: "primary" }, "Create"),
        button("Replace the rights", replace)) : "", made, table("Apps",
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
            const chosen = words(rights.value);
            if (chosen.length) content.rights = chosen;
            if (days.value) content.expirySeconds = Number(days.value) * 86400;
            const reply = await request("POST", `${appPath()}/keys`, { content });
            made.replaceChildren(secretCard(
              `The key ${name.value} of ${app}. It is shown only this once.`, reply.key));
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
      const name = element("input", { name: "operator", required: true, autocomplete: "off" });
      const newRole = element("select", { name: "role" },
        ...["view", "operate", "own"].map((one) => element("option", {}, one)));
      const days = element("input", { name: "days", type: "number", min: "1", value: "90" });
      const made = element("div");
      const add = reportingErrors(async () => {
        const content = { operator: name.value, role: newRole.value };
        if (days.value) content.expirySeconds = Number(days.value) * 86400;
        const { token } = await request("POST", "/operators", { content });
        made.replaceChildren(secretCard(
          `The token of ${name.value}. It is shown only this once.`, token));
      });
      main.append(element("h1", {}, "Operators"), element("form", { class: "row", onsubmit: add },
        field("Name", name), field("Role", newRole),
        field("Days until it expires; empty for never", days),
        element("button", { class: "primary" }, "Add an operator")), made, table("Operators",
        ["Operator", "Role", "Made", "Expires", ""],
        reply.operators.map((one) => [one.operator, one.role, time(one.madeUnixSeconds * 1000),
          one.expiresUnixSeconds ? time(one.expiresUnixSeconds * 1000) : "never",
          button("Remove", remove(one.operator), "danger")]), "There is no operator."));
    },
  },
};
