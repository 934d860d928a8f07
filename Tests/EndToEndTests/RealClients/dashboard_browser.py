# Chromium for the checks of the dashboard, in one theme and one width: what a page must be for its
# readers, and the words that it shows. The program that imports it has the arguments
#
#   ADDRESS TOKEN light|dark WIDTH ...
#
# and prints, through check(), a line for each check that fails.

import sys

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

address, token, theme, width = sys.argv[1:5]
checks = 0
# Receives a picture of each page; none if it is not set.
pictures = None


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
wait = WebDriverWait(driver, 100)

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


def follow(words):
    """Clicks a link of a list, which may be drawn again between the search and the click."""
    def has_followed(_):
        driver.find_element(By.LINK_TEXT, words).click()
        return True

    WebDriverWait(
        driver, 100, ignored_exceptions=[StaleElementReferenceException]).until(has_followed)


def page(name, words):
    driver.find_element(By.LINK_TEXT, name).click()
    shows(words, name)
    look(name.lower())


def fill(name, value):
    field = driver.find_element(By.NAME, name)
    field.clear()
    field.send_keys(value)


def press(words, inside="main"):
    def has_pressed(_):
        driver.find_element(
            By.XPATH, f"//*[@id='{inside}']//button[normalize-space()='{words}']").click()
        return True

    # The page may be drawn again between the search and the click.
    WebDriverWait(
        driver, 100, ignored_exceptions=[StaleElementReferenceException]).until(has_pressed)


def confirm(words):
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press(words, "confirmation")
