// The page that is shown: what ends with it, and how it is shown again.

let end = () => {};

/** Sets what is done when the page is left. */
export function whenLeft(action) {
  end = action;
}

export function leave() {
  end();
  end = () => {};
}

/** Shows the page again, after it has changed something. */
export const reopen = () => window.dispatchEvent(new HashChangeEvent("hashchange"));
