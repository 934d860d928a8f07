// Templates of wake-ups: tried with a sample, set for each kind of targets, and sent to a user by
// way of a test.

import { appPath, request, segment } from "/api.js";
import {
  button, confirmed, counted, element, field, main, reportingErrors, showStatus, table,
} from "/elements.js";

const kinds = ["apns", "fcm", "webhook", "sms-webhook", "mqtt"];

export const pages = {
  templates: {
    title: "Wake-up templates",
    role: "operate",
    async show() {
      const path = (kind) => `${appPath()}/wake-templates/${segment(kind)}`;
      const kind = element("select", { name: "kind" },
        kinds.map((one) => element("option", {}, one)));
      const text = element("textarea", { name: "template", class: "code", spellcheck: "false" });
      const list = element("div");
      const shown = element("div");
      const load = async () => {
        const { templates } = await request("GET", `${appPath()}/wake-templates`);
        list.replaceChildren(table("Templates", ["Kind", "Template", ""],
          templates.map((one) => [one.kind, element("code", {}, one.template),
            element("div", { class: "actions" },
              button("Edit", () => { kind.value = one.kind; text.value = one.template; }),
              button("Remove", remove(one.kind), "danger"))]),
          "This app has no template: the relay uses its own."));
      };
      const remove = (name) => async () => {
        if (!await confirmed(`Remove the template for ${name}? The relay's own counts again.`,
          "Remove")) return;
        await request("DELETE", path(name));
        await load();
        showStatus("The template is removed.");
      };
      const attempt = async () => {
        const reply = await request("POST", `${path(kind.value)}/try`,
          { content: text.value ? { template: text.value } : {} });
        shown.replaceChildren(element("section", { class: "card" },
          element("h2", {}, `What ${kind.value} would get`),
          element("pre", { class: "code" }, reply.content)));
      };
      const save = async () => {
        if (!await confirmed(`Set the template for ${kind.value}? All wake-ups of the app to such `
          + "targets have it from the next request on.", "Set the template")) return;
        await request("PUT", path(kind.value), { content: { template: text.value } });
        await load();
        showStatus("The template is set.");
      };
      const user = element("input", { name: "user", required: true, autocomplete: "off" });
      const wake = async () => {
        const reply = await request("POST",
          `${appPath()}/users/${segment(user.value)}/wake-test`, { content: {} });
        showStatus(`The relay was told of ${counted(reply.targetCount, "target")}.`);
      };
      main.append(element("h1", {}, "Wake-up templates"),
        element("form", { class: "card", onsubmit: reportingErrors(save) },
          field("Kind", kind),
          element("label", { class: "wide" }, "Template, an object of JSON5", text),
          element("div", { class: "row" }, button("Try", attempt),
            element("button", { class: "primary" }, "Set")),
          element("p", { class: "quiet" }, "Variables: ${group}, ${convId}, ${fromClientId}, "
            + "${timestamp}, ${count}, ${user}, ${device}, ${language}, and ${message} where the "
            + "app's contents may leave. Without a text, Try shows what counts now.")),
        shown, list,
        element("form", { class: "card", onsubmit: reportingErrors(wake) },
          element("h2", {}, "Send what is set"),
          field("User", user),
          element("button", {}, "Wake by way of a test"),
          element("p", { class: "quiet" }, "The relay wakes the user at all targets. The user's "
            + "page has what becomes of it.")));
      await load();
    },
  },
};
