// The broker itself: listeners, refusals, the log, backups and the configuration.

import { hasRole, request, store } from "/api.js";
import {
  button, bytes, confirmed, count, counted, element, field, main, reportingErrors, showStatus,
  table, time,
} from "/elements.js";
import { whenLeft } from "/navigation.js";

export const pages = {
  listeners: {
    title: "Listeners",
    async show() {
      const { listeners } = await request("GET", "/listeners");
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
        const reply = await request("GET", "/refusals", { query: { after: last, limit: 200 } });
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
      const timer = setInterval(() => refresh().catch((error) => showStatus(error.message)), 2000);
      whenLeft(() => clearInterval(timer));
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
        const reply = await request("GET", "/log", { query: { after: last, limit: 200 } });
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
      const timer = setInterval(() => refresh().catch((error) => showStatus(error.message)), 1000);
      whenLeft(() => clearInterval(timer));
    },
  },

  broker: {
    title: "Broker",
    async show() {
      main.append(element("h1", {}, "Broker"), backupCard());
      if (!hasRole("own")) return;
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
              const reply = await request("POST", "/reload");
              show(`Reloaded. Changed: ${reply.changed.join(", ") || "nothing"}.`
                + (reply.needsRestart.length
                  ? ` A restart is needed for ${reply.needsRestart.join(", ")}.` : ""), true);
            } catch (error) {
              show(error.message, false);
            }
          }), outcome),
        element("section", { class: "card" }, element("h2", {}, "Log"),
          element("form", {
            class: "row", onsubmit: reportingErrors(async () => {
              if (!await confirmed(`Change the level of the log to ${level.value} until the next `
                + "reload or restart?", "Change the level")) return;
              const reply = await request("PUT", "/log-level", { content: { level: level.value } });
              showStatus(`The level is ${level.value}; it was ${reply.previous}.`);
            }),
          }, field("Level", level), element("button", {}, "Change"))));
    },
  },
};

/** The last backup with its progress, and the form that starts one. */
function backupCard() {
  const text = element("p", { role: "status" }, "…");
  const bar = element("progress", { max: "1", value: "0", "aria-label": "Progress of the backup" });
  bar.hidden = true;
  const card = element("section", { class: "card" }, element("h2", {}, "Backup"), text, bar);
  const directory = element("input",
    { name: "directory", required: true, autocomplete: "off",
      placeholder: "/var/backups/martlet" });
  let timer = 0;
  whenLeft(() => clearTimeout(timer));
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
    if (!status.isFinished) timer = setTimeout(reportingErrors(refresh), 500);
  };
  async function refresh() {
    try {
      show(await request("GET", "/backups/last"));
    } catch (error) {
      if (error.status !== 404) throw error;
      text.textContent = "The broker has made no backup since it started.";
    }
  }
  if (hasRole("own")) {
    card.append(element("form", {
      class: "row", onsubmit: reportingErrors(async () => {
        if (!await confirmed(`Copy the store into ${directory.value} on the broker's machine?`,
          "Start the backup")) return;
        clearTimeout(timer);
        show(await request("POST", "/backups", { content: { directory: directory.value } }));
      }),
    }, field("Directory on the broker's machine, new or empty", directory),
    element("button", {}, "Back up")));
  }
  reportingErrors(refresh)();
  return card;
}
