// One user: its devices, and what became of its wake-ups.

import { appPath, hasRole, request, segment } from "/api.js";
import {
  button, count, counted, element, main, reportingErrors, showStatus, table, time,
} from "/elements.js";

export const pages = {
  user: {
    async show(user) {
      const found = await request("GET", `${appPath()}/users/${segment(user)}`);
      main.append(element("h1", {}, user), table("Devices",
        ["Device", "Protocol", "State", "#Queue"], found.devices.map((one) => [
          element("a", { href: `#device/${segment(user)}/${segment(one.device)}` },
            one.device || "without a name"),
          one.dialect, one.connectedUnixMilliseconds != null ? "connected" : "disconnected",
          count(one.queue.messageCount)]),
        "This user has no device now."));
      if (hasRole("operate")) main.append(wakeCard(user));
    },
  },
};

/** Where a relay reaches the user, and what it reported: why did it not wake? */
function wakeCard(user) {
  const path = `${appPath()}/users/${segment(user)}`;
  const targets = element("div");
  const log = element("div");
  const load = async () => {
    const known = await request("GET", `${path}/wake-targets`);
    targets.replaceChildren(table("Wake targets",
      ["#Target", "Kind", "Device", "Language", "State"],
      known.targets.map((one) => [String(one.id), one.kind, one.device ?? "any",
        one.language ?? "", one.isSilent ? "logged out" : ""]),
      "This user has no wake target: nobody wakes it."));
    if (known.targets.length > 0) targets.append(button("Wake by way of a test", test));
    const { entries } = await request("GET", `${path}/wake-log`);
    log.replaceChildren(table("Log of wake-ups",
      ["Time", "#Target", "Kind", "Step", "#Wake-up", "#Messages", "Detail"],
      entries.reverse().map((one) => [time(one.unixMilliseconds), String(one.id), one.kind,
        one.step, String(one.wake), count(one.messageCount), one.detail ?? ""]),
      "The relay has reported nothing of this user since the broker was started."));
    log.append(button("Refresh", load));
  };
  const test = async () => {
    const reply = await request("POST", `${path}/wake-test`, { content: {} });
    showStatus(`The relay was told of ${counted(reply.targetCount, "target")}.`);
  };
  reportingErrors(load)();
  return element("section", { "aria-label": "Wake-ups" }, element("h2", {}, "Wake-ups"), targets,
    element("p", { class: "quiet" }, "What the relay reported since the broker was started, by "
      + "the relay's clock: at most 100 entries. Older ones are in the relay's own log "
      + "(martlet-gateway push log)."), log);
}
