// Elements, words and confirmations that all pages use.

export const main = document.getElementById("main");

/** Makes an element. Text is never read as HTML. */
export function element(tag, properties = {}, ...children) {
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

export function field(text, input) {
  return element("label", {}, text, input);
}

export function button(text, action, kind = "") {
  return element("button", { type: "button", class: kind, onclick: reportingErrors(action) }, text);
}

export function table(caption, columns, rows, emptyText) {
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

export const count = (value) => Number(value).toLocaleString();
export const counted = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) { value /= 1024; index += 1; }
  return `${index === 0 ? value : value.toFixed(1)} ${units[index]}`;
}

export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  for (const [index, [name, size]] of units.entries()) {
    if (seconds < size && size > 1) continue;
    const rest = Math.floor((seconds % size) / (units[index + 1]?.[1] ?? 1));
    const next = units[index + 1]?.[0];
    return `${Math.floor(seconds / size)} ${name}` + (rest && next ? ` ${rest} ${next}` : "");
  }
}

/** In the zone of the reader. */
export const time = (milliseconds) => new Date(milliseconds).toLocaleString();

let statusTimer = 0;

export function showStatus(text) {
  const status = document.getElementById("status");
  status.replaceChildren(element("p", {}, text));
  clearTimeout(statusTimer);
  statusTimer = setTimeout(() => status.replaceChildren(), 8000);
}

/** Asks once, and names what is done. */
export function confirmed(text, action) {
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
export function reportingErrors(action) {
  return async (event) => {
    event?.preventDefault?.();
    try {
      await action(event);
    } catch (error) {
      // The login says why a token is refused.
      if (error.status !== 401) showStatus(error.message);
    }
  };
}
