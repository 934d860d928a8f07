# Clicks through the dashboard in Chromium, in one theme and one width. Prints a line for each check
# that fails, and "done" with the number of checks.
#
#   dashboard.py ADDRESS TOKEN light|dark WIDTH CODE BACKUP [DIRECTORY]
#
# CODE is the code of a link that signs in with the role view, BACKUP a directory that does not
# exist. DIRECTORY receives a picture of each page.

import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

address, token, theme, width = sys.argv[1:5]
code = sys.argv[5]
directory = sys.argv[6]
pictures = sys.argv[7] if len(sys.argv) > 7 else None
checks = 0


def check(is_true, text):
    global checks
    checks += 1
    if not is_true:
        print(f"{theme} {width}: {text}", flush=True)


options = webdriver.ChromeOptions()
for word in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run", "--disable-extensions",
             "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1"]:
    options.add_argument(word)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
driver = webdriver.Chrome(options=options)
driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
    "width": int(width), "height": 800, "deviceScaleFactor": 1, "mobile": int(width) < 600})
driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
    "features": [{"name": "prefers-color-scheme", "value": theme}]})
wait = WebDriverWait(driver, 40)

# What a reader of the screen hears, and what a keyboard reaches: names of fields and buttons, one
# heading, contrast of at least 4.5 [WCAG 2.1, 1.4.3, 4.1.2], and no page wider than the window.
FAULTS = r"""
const faults = [];
const isShown = (one) => one.offsetParent !== null || one.getClientRects().length > 0;
const name = (one) => (one.getAttribute("aria-label") || one.textContent
  || (one.labels && one.labels.length && one.labels[0].textContent) || "").trim();
for (const one of document.querySelectorAll("a, button, input, select, textarea, nav, table")) {
  if (!isShown(one)) continue;
  const label = one.labels && one.labels.length ? one.labels[0].textContent.trim() : name(one);
  if (!label) faults.push("no name: " + one.outerHTML.slice(0, 80));
  if (one.tabIndex < 0 && /^(A|BUTTON|INPUT|SELECT|TEXTAREA)$/.test(one.tagName))
    faults.push("not reached by the keyboard: " + one.outerHTML.slice(0, 80));
  if (one.tabIndex > 0) faults.push("changes the order: " + one.outerHTML.slice(0, 80));
}
if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
if (!document.documentElement.lang) faults.push("no language");
if (!document.title) faults.push("no title");
const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
if (new Set(ids).size !== ids.length) faults.push("an id twice");
const channel = (value) => {
  value /= 255;
  return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
};
const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const ground = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
for (const one of document.querySelectorAll("body *")) {
  if (!isShown(one) || one.closest(".skip")) continue;
  if (![...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
  const [high, low] = [light(parse(getComputedStyle(one).color)), light(ground(one))]
    .sort((a, b) => b - a);
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(2)}: ` + one.textContent.slice(0, 40));
}
if (document.documentElement.scrollWidth > window.innerWidth + 1) faults.push("wider than the window");
return faults;
"""


def text():
    return driver.find_element(By.ID, "main").text


def shows(words, what):
    try:
        wait.until(lambda _: words in text())
        check(True, what)
    except Exception:
        check(False, f"{what}: no \"{words}\" in: {text()[:200]}")


def look(name):
    for fault in driver.execute_script(FAULTS):
        check(False, f"{name}: {fault}")
    check(True, name)
    if pictures:
        driver.save_screenshot(f"{pictures}/dashboard-{name}-{theme}-{width}.png")


def page(name, words):
    driver.find_element(By.LINK_TEXT, name).click()
    shows(words, name)
    look(name.lower())


def fill(name, value):
    field = driver.find_element(By.NAME, name)
    field.clear()
    field.send_keys(value)


def press(words, inside="main"):
    driver.find_element(
        By.XPATH, f"//*[@id='{inside}']//button[normalize-space()='{words}']").click()


try:
    driver.get(address)
    shows("Operator's token", "login")
    look("login")
    fill("token", "mo1_wrong")
    press("Sign in")
    shows("no operator", "a wrong token")
    fill("token", token)
    press("Sign in")
    shows("Connected devices", "overview")
    shows("/s", "rates")
    shows("Acknowledgements, 99 % within", "latencies")
    look("overview")

    page("Devices", "alice/phone")
    driver.find_element(By.LINK_TEXT, "alice/phone").click()
    shows("Waiting messages", "device")
    fill("target", "site/1")
    press("Explain")
    shows("Allowed", "explanation")
    shows(", by t", "the address of a device and its listener")
    shows("token ", "its credential")
    shows("client connected", "its connections")
    press("Trace for a minute")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Start the trace", "confirmation")
    shows("The trace is on", "a trace")
    look("device")

    # A device that is away: its queue with a message to look at and to drop.
    page("Devices", "carol/away")
    driver.find_element(By.LINK_TEXT, "carol/away").click()
    shows("Waiting messages", "a device that is away")
    shows("alice", "a message in its queue")
    press("Look")
    shows("first <i>word</i>", "the content of a message")
    look("queue")
    press("Drop")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Drop the message", "confirmation")
    shows("No message waits", "a message that was dropped")

    page("Users", "carol")
    fill("added", "erin")
    press("Make known")
    shows("erin", "a new user")

    # A user with what a relay reported of its wake-ups.
    driver.find_element(By.LINK_TEXT, "carol").click()
    shows("away", "the devices of a user")
    shows("status 503", "what came of a wake-up")
    shows("Wake by way of a test", "a wake target")
    look("user")

    page("Retained", "site/1/limit")
    press("Look")
    shows("forty", "the content of a retained message")
    look("retained-content")
    fill("filter", "site/+/limit")
    press("Delete those that match")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Delete", "confirmation")
    shows("No retained message matches", "no retained message")

    page("Groups", "Pump house")
    driver.find_element(By.LINK_TEXT, "Pump house").click()
    shows("Owned by alice", "group")
    fill("user", "bob")
    press("Add")
    shows("2 members", "a new member")
    look("group")
    press("Remove")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    look("confirmation")
    press("Remove", "confirmation")
    shows("1 member,", "a removed member")
    fill("meta", "{\"rate\": 60}")
    press("Replace the data")
    # The page has been written again by then.
    wait.until(lambda _: "is changed" in driver.find_element(By.ID, "status").text)
    check(driver.find_element(By.NAME, "meta").get_attribute("value") == "{\"rate\": 60}", "data")
    fill("allowed", "bob")
    press("Only these users")
    shows("only users of its list", "a list of a group")
    page("Groups", "Pump house")
    fill("owner", "bob")
    fill("title", "Second")
    press("Create a group")
    shows("Second", "a new group")
    driver.find_element(By.LINK_TEXT, "Second").click()
    shows("Owned by", "the new group")
    press("Delete the group")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Delete the group", "confirmation")
    wait.until(lambda _: driver.current_url.endswith("#groups") and "Second" not in text())
    check("Pump house" in text(), "the group that remains")

    page("Conversations", "Show")
    fill("user", "carol")
    press("Show")
    shows("1", "a conversation")
    wait.until(lambda _: driver.find_elements(By.LINK_TEXT, "bob"))
    driver.find_element(By.LINK_TEXT, "bob").click()
    shows("the valve is open", "a kept message")
    look("history")
    fill("search", "pump")
    press("Search")
    shows("No message is found", "a search without a result")
    fill("search", "valve")
    press("Search")
    shows("the valve is open", "a search with a result")
    # On a telephone the status of an earlier change covers the button.
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)
    press("Remove")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Remove", "confirmation")
    shows("No message is found", "a removed message")

    page("Conversations", "plant/1/alarm")
    driver.find_element(By.LINK_TEXT, "plant/1/alarm").click()
    shows("too hot", "a kept message of a topic")
    look("topic-history")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)
    press("Remove")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Remove", "confirmation")
    shows("No message is found", "a removed message of a topic")

    # A message with receipts: one receiver has applied it, the other one was never there.
    page("Conversations", "Show")
    fill("user", "dave")
    press("Show")
    wait.until(lambda _: driver.find_elements(By.LINK_TEXT, "erik"))
    driver.find_element(By.LINK_TEXT, "erik").click()
    shows("close the valve", "a message with receipts")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)
    press("Receipts")
    shows("0 of 2", "delivered to how many")
    shows("1 of 2", "applied by how many")
    shows("applied", "a receiver that has applied it")
    shows("waits", "a receiver that lacks it")
    look("receipts")

    page("Tokens", "carol")
    fill("user", "dave")
    press("Mint tokens")
    shows("mt1_", "a new token")
    look("minted")
    fill("user", ", ".join(f"lot-{number}" for number in range(600)))
    fill("batch", "lot")
    press("Mint tokens")
    shows("600 tokens, shown only this once", "a lot of tokens")

    page("Passwords", "This app has no passwords")
    fill("name", "pump-7")
    fill("password", "first secret")
    fill("user", "dave")
    fill("rights", "send:*, publish:site/#")
    fill("days", "30")
    press("Set the password")
    shows("argon2id", "a new password")
    shows("send:*, publish:site/#", "the rights of the password")
    check("first secret" not in driver.page_source, "a password that is shown")
    look("password-set")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)
    press("Change")
    check(driver.find_element(By.NAME, "user").get_attribute("value") == "dave", "who logs in")
    fill("rights", "")
    fill("password", "second secret")
    press("Set the password")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Replace", "confirmation")
    wait.until(lambda _: "send:*" not in text())
    shows("those of the app", "a changed password")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)
    press("Revoke")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Revoke", "confirmation")
    shows("This app has no passwords", "a revoked password")
    check("is revoked; 0 connections" in driver.find_element(By.ID, "status").text,
          "what a revocation ends")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)

    page("Send", "Send a message")
    fill("from", "alice")
    fill("to", "bob")
    fill("text", "<b>hello</b>")
    press("Send")
    shows("acknowledged after", "a message")
    shows("<b>hello</b>", "text is no HTML")
    fill("to", "nobody-knows")
    press("Send")
    shows("nobody knows", "a refused message")
    look("sent")

    page("Apps", "demo")
    fill("app", "plant")
    fill("rights", "send:*, publish:plant/%u/#")
    press("Create")
    shows("mk1_", "a new app and its key")
    look("app-created")

    page("Keys", "default")
    fill("name", "ci")
    fill("rights", "send:*, publish:site/#")
    fill("days", "30")
    press("Add a key")
    shows("mk1_", "a new key")
    shows("send:*, publish:site/#", "the rights of the key")
    look("key-added")
    press("Add a key")
    wait.until(
        lambda _: "has a key" in driver.find_element(By.ID, "status").text)
    check(text().count("mk1_") == 1, "a key whose name is taken")
    page("Apps", "demo")
    page("Keys", "ci")
    check("mk1_" not in text(), "a key that is shown twice")
    driver.find_element(
        By.XPATH, "//*[@id='main']//tr[td[1]='ci']//button[normalize-space()='Revoke']").click()
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    check("the key ci of demo" in driver.find_element(By.ID, "confirmation").text, "what is asked")
    press("Revoke", "confirmation")
    wait.until(lambda _: "send:*" not in text())
    shows("default", "the other key")
    check("is revoked; 0 connections" in driver.find_element(By.ID, "status").text, "a revoked key")
    # On a phone, what it says covers the buttons at the bottom until it goes.
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)

    page("Wake-up templates", "This app has no template")
    Select(driver.find_element(By.NAME, "kind")).select_by_visible_text("webhook")
    fill("template", "{ text: \"${cuont}\" }")
    press("Try")
    wait.until(lambda _: "column 9" in driver.find_element(By.ID, "status").text)
    fill("template", "{ text: \"${count} of ${user}\" }")
    press("Try")
    shows("3 of bob", "a template that is tried")
    press("Set")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Set the template", "confirmation")
    shows("Remove", "a template that is set")
    look("templates")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)
    press("Remove")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Remove", "confirmation")
    shows("This app has no template", "a template that is removed")
    wait.until(lambda _: not driver.find_element(By.ID, "status").text)

    page("Operators", "own")
    fill("operator", "night")
    press("Add an operator")
    shows("mo1_", "a new operator")

    page("Listeners", "https://localhost")
    shows("/CN=", "the subject of a certificate")
    page("Refusals", "auth failed")
    shows("no operator has this token", "the wrong token from above")
    rows = len(driver.find_elements(By.CSS_SELECTOR, "#main tbody tr"))
    driver.execute_script(
        "fetch('/api/v1/apps', {headers: {Authorization: 'Bearer mo1_again'}})")
    wait.until(lambda _: len(driver.find_elements(By.CSS_SELECTOR, "#main tbody tr")) > rows)
    check(True, "a refusal that comes meanwhile")
    page("Log", "client connected")

    page("Broker", "made no backup")
    fill("directory", directory)
    press("Back up")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Start the backup", "confirmation")
    shows("which was checked", "a backup")
    press("Reload")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Reload", "confirmation")
    shows("Reloaded. Changed: nothing", "a reload")
    Select(driver.find_element(By.NAME, "level")).select_by_visible_text("debug")
    press("Change")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Change the level", "confirmation")
    wait.until(lambda _: "it was info" in driver.find_element(By.ID, "status").text)
    look("operations")

    # Only the keyboard: from the field of the app to a page by its link.
    driver.find_element(By.LINK_TEXT, "Groups").send_keys("\n")
    shows("Pump house", "by the keyboard")

    driver.find_element(By.ID, "sign-out").click()
    shows("Operator's token", "signed out")
    check(driver.execute_script("return sessionStorage.getItem('token')") is None, "no token kept")
    check(driver.get_cookies() == [], "no cookies")

    # A link signs in once, in an open tab too, and leaves nothing in the address.
    driver.get(address + "#login=" + code)
    shows("Connected devices", "a link")
    check("login" not in driver.current_url and "ml1_" not in driver.current_url, "address")
    # The role view is offered nothing that it may not do.
    links = [one.text for one in driver.find_elements(By.CSS_SELECTOR, "#navigation a")
             if one.is_displayed()]
    check("Devices" in links and "Operators" not in links and "Send" not in links, f"{links}")
    page("Broker", "which was checked")
    page("Tokens", "carol")
    check(driver.find_elements(By.CSS_SELECTOR, "#main button") == [], "buttons of the role view")
    page("Keys", "default")
    check(driver.find_elements(By.CSS_SELECTOR, "#main button") == [], "buttons of keys")
    page("Passwords", "This app has no passwords")
    check(driver.find_elements(By.CSS_SELECTOR, "#main button") == [], "buttons of passwords")
    driver.find_element(By.ID, "sign-out").click()
    shows("Operator's token", "signed out again")
    driver.get(address + "#login=" + code)
    shows("was used, has expired", "a link that was used")
    look("used-link")
    # The refused requests of the checks above are expected; nothing else is.
    for entry in driver.get_log("browser"):
        check(any(f"status of {one}" in entry["message"] for one in [401, 404, 409])
              and "backups" not in entry["message"], entry["message"])
    loaded = driver.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)")
    check(all(one.startswith(address) for one in loaded), f"foreign requests: {loaded}")
finally:
    driver.quit()
print(f"done {checks}")
