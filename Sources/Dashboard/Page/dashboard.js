// The dashboard: signing in, and moving between the pages.

import { hasRole, request, session, setRole, store } from "/api.js";
import * as broker from "/broker.js";
import * as cluster from "/cluster.js";
import * as conversations from "/conversations.js";
import * as credentials from "/credentials.js";
import * as devices from "/devices.js";
import { element, main, reportingErrors } from "/elements.js";
import * as messages from "/messages.js";
import { leave, showPagesWith } from "/navigation.js";
import { forgetSamples, pages as overview } from "/overview.js";
import * as templates from "/templates.js";
import * as users from "/users.js";

/** All pages, in the order of the navigation. */
const order = ["overview", "devices", "device", "users", "user", "retained", "groups", "group",
  "conversations", "history", "tokens", "passwords", "send", "apps", "keys", "templates",
  "listeners", "refusals", "log", "broker", "cluster", "operators"];
const found = { ...overview, ...devices.pages, ...users.pages, ...messages.pages,
  ...conversations.pages, ...credentials.pages, ...templates.pages, ...broker.pages,
  ...cluster.pages };
const pages = Object.fromEntries(order.map((name) => [name, found[name]]));

session.end = showLogin;
showPagesWith(() => open(location.hash));

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

function showLogin(message = "") {
  leave();
  forgetSamples();
  document.getElementById("header").hidden = true;
  const token = element("input",
    { type: "password", name: "token", required: true, autocomplete: "off", class: "wide" });
  main.replaceChildren(element("form", {
    class: "card login", onsubmit: reportingErrors(async () => {
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
  leave();
  opening += 1;
  const own = opening;
  main.replaceChildren();
  document.title = `${page.title ?? parts.join("/")} · Martlet`;
  for (const link of document.querySelectorAll("#navigation a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    if (!hasRole(page.role ?? "view")) throw new Error(`This page needs the role ${page.role}.`);
    await page.show(...parts);
  } catch (error) {
    if (own !== opening || error.status === 401) return;
    main.append(element("p", { class: "bad", role: "alert" }, error.message));
  }
}

async function begin() {
  setRole((await request("GET", "/me")).role);
  for (const link of document.querySelectorAll("#navigation a")) {
    link.hidden = !hasRole(pages[link.hash.slice(1)].role ?? "view");
  }
  const reply = await request("GET", "/apps");
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
  if (linkCode()) reportingErrors(() => signIn(linkCode()))();
  else if (store.getItem("token")) reportingErrors(begin)();
  else showLogin();
}

window.addEventListener("hashchange", () => {
  if (linkCode()) start();
  else if (store.getItem("token")) open(location.hash);
});
start();
