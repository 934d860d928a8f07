# Looks at the dashboard's page of a cluster in Chromium, and makes the primary step down. Prints a
# line for each check that fails, and "done" with the number of checks.
#
#   cluster_dashboard.py ADDRESS TOKEN light|dark WIDTH NODE SERVER,SERVER,... STANDBY,STANDBY
#
# NODE is the name of the primary, a SERVER the process of a server of the log, a STANDBY that of
# another node.

import os
import pathlib
import signal
import sys

from selenium.common.exceptions import TimeoutException

sys.path.append(str(pathlib.Path(__file__).parent.parent / "EndToEndTests/RealClients"))

import dashboard_browser as browser
from dashboard_browser import (
    By, WebDriverWait, address, check, confirm, driver, fill, look, page, press, shows, text, token)

# Servers that were stopped elect their leaders anew, which takes long on a busy machine.
wait = browser.wait = WebDriverWait(driver, 120)

node = sys.argv[5]
servers, standbys = ([int(one) for one in words.split(",")] for words in sys.argv[6:8])


def rows(name):
    """The cells of a table, read at one time: the page makes its rows anew each second."""
    return driver.execute_script("""
        const rows = document.querySelectorAll(`#main table[aria-label='${arguments[0]}'] tbody tr`);
        return [...rows].map(row => [...row.querySelectorAll("td")].map(cell => cell.innerText));
        """, name)


def has_primary(shown):
    return len(shown) == 3 and shown[0][:2] == [node, "primary"]


def has_standbys(shown):
    return all(row[1] == "standby" and row[5].endswith("s ago") for row in shown[1:])


def has_leader(shown):
    return len(shown) == 3 and [row[1] for row in shown].count("leader") == 1


def are_current(shown):
    return all(row[2] == "current" for row in shown)


def settled(name, is_right):
    """The cells of a table, when they are right, or after a while."""
    last = []

    def are_right(_):
        last[:] = rows(name)
        return is_right(last)

    try:
        wait.until(are_right)
    except TimeoutException:
        pass
    return last


try:
    driver.get(address)
    shows("Operator's token", "login")
    fill("token", token)
    press("Sign in")
    shows("Connected devices", "overview")
    page("Cluster", "standby")
    # Nodes report each second, and look at the log every five.
    shows("No alarms", "a cluster in order")
    shown = settled("Nodes", lambda shown: has_primary(shown) and has_standbys(shown))
    check(has_primary(shown), f"nodes: {shown}")
    check(has_standbys(shown), f"{shown}")
    links = driver.execute_script(
        "return [...document.querySelectorAll(\"#main table[aria-label='Nodes'] a\")]"
        ".map(one => one.href)")
    check(len(links) == 2 and all(one.startswith("http://127.0.0.1:") for one in links), f"{links}")
    # A server that is behind for a moment is no fault.
    shown = settled("Servers", lambda shown: has_leader(shown) and are_current(shown))
    check(has_leader(shown), f"servers: {shown}")
    check(are_current(shown), f"servers: {shown}")
    check("for another" in text() and "strict" in text(), "the lease")
    look("cluster")

    # The page tells of a log that does not answer, when nothing else is answered.
    # No standby takes over while the page is looked at, however long that takes.
    for process in standbys + servers:
        os.kill(process, signal.SIGSTOP)
    shows("there is no lease", "an alarm")
    shows("not now: nothing leaves this node", "no lease")
    look("cluster-alarm")
    for process in servers:
        os.kill(process, signal.SIGCONT)
    shows("for another", "the lease again")
    for process in standbys:
        os.kill(process, signal.SIGCONT)
    shows("No alarms", "the end of an alarm")

    press("Step down")
    wait.until(lambda _: driver.find_element(By.ID, "confirmation").is_displayed())
    press("Cancel", "confirmation")
    shows("No alarms", "a hand-over that is not wanted")
    press("Step down")
    confirm("Step down")
    shows("Another node may be the primary", "a hand-over")
    look("cluster-away")
finally:
    driver.quit()
print(f"done {browser.checks}")
