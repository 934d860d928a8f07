// The HTTP API, used with the token that the browser keeps for this tab. No cookie is set, so that
// another site can make no request in the operator's name.

const root = "/api/v1";
export const store = window.sessionStorage;

/** Called with a reason when the broker refuses the token; the program sets it. */
export const session = { end: () => {} };

class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function request(method, path, { query = {}, content } = {}) {
  // An empty text is a value: the name of the device without a name.
  const search = Object.entries(query).filter(([, value]) => value != null)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  const headers = { Authorization: `Bearer ${store.getItem("token")}` };
  if (content) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(root + path + (search ? `?${search}` : ""),
      { method, headers, body: content && JSON.stringify(content), cache: "no-store" });
  } catch {
    throw new Refusal(0, "The broker does not answer.");
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    store.removeItem("token");
    session.end(body.detail ?? "The token is not valid.");
  }
  if (!answer.ok) throw new Refusal(answer.status, body.detail ?? `Status ${answer.status}`);
  return body;
}

const roles = ["view", "operate", "own"];
/** The role of the token. */
let role = "view";

export function setRole(name) {
  role = name;
}

export const hasRole = (least) => roles.indexOf(role) >= roles.indexOf(least);

export const segment = encodeURIComponent;
export const appPath = () => `/apps/${segment(store.getItem("app") ?? "")}`;
