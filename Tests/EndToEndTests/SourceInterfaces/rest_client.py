# A client of the small REST server, written with requests as its users write it: compares the
# shapes of all answers, and what is refused.
#
#     rest_client.py PORT TOKEN-OF-ANOTHER-APP-OR-USER

import sys

import requests

base = "http://localhost:" + sys.argv[1]
patience = 60
# What users of these systems do: one session, JSON, and the token in Authorization.
http = requests.Session()


def post(path, body, token=None, status=200, **more):
    headers = {"Authorization": "Bearer " + token} if token else {}
    answer = http.post(base + path, json=body, headers=headers, timeout=patience, **more)
    assert answer.status_code == status, (path, answer.status_code, answer.text)
    assert answer.headers["Content-Type"] == "application/json"
    return answer.json()


# Registration.
assert post("/auth/register", {"username": "rosa", "password": "geheim"}) == {"success": True}
assert post("/auth/register", {"username": "rosa", "password": "x"}, status=409)["error"]
assert post("/auth/register", {"username": "alice", "password": "x"}, status=409)["error"]
for body in ({"username": "emil"}, {"password": "x"}, {}, {"username": "", "password": "x"}):
    assert "is missing" in post("/auth/register", body, status=400)["error"]
assert post("/auth/register", {"username": "a+b", "password": "x"}, status=400)["error"]
long = {"username": "long", "password": "x" * 1025}
assert "password" in post("/auth/register", long, status=400)["error"]
answer = http.post(base + "/auth/register", data="username=a&password=b", timeout=patience)
assert answer.status_code == 415, answer.status_code
answer = http.post(
    base + "/auth/register", data="{", headers={"Content-Type": "application/json"},
    timeout=patience)
assert answer.status_code == 400, answer.status_code
print("register well", flush=True)

# Login.
login = post("/auth/login", {"username": "rosa", "password": "geheim"})
assert list(login) == ["jwt"] and isinstance(login["jwt"], str)
rosa = login["jwt"]
assert rosa.startswith("mt1_")
named = post("/auth/login", {"username": "demo/rosa", "password": "geheim"})["jwt"]
assert named != rosa
assert post("/auth/login", {"username": "rosa"}, status=400)["error"] == "password is missing"
assert post("/auth/login", {"username": "rosa", "password": "falsch"}, status=403)["error"]
assert post("/auth/login", {"username": "nobody", "password": "x"}, status=403)["error"]
assert post("/auth/login", {"username": "other/rosa", "password": "x"}, status=403)["error"]
print("login well", flush=True)

# Conversations.
got = http.get(
    base + "/conversations", headers={"Authorization": "Bearer " + rosa}, timeout=patience)
assert got.status_code == 200 and got.json() == {"conversations": []}, got.text
made = post("/conversations/create", {"label": "Küche / Hof"}, rosa)
assert sorted(made) == ["label", "token"] and made["label"] == "Küche / Hof"
got = http.get(
    base + "/conversations", headers={"Authorization": "Bearer " + named}, timeout=patience)
assert got.json() == {"conversations": [made]}, got.text
assert post("/conversations/create", {}, rosa, status=400)["error"] == "label is missing"
assert post("/conversations/create", {"label": 7}, rosa, status=400)["error"]
assert post("/conversations/create", {"label": "x" * 129}, rosa, status=413)["error"]
print("conversations well", flush=True)

# Without a valid header: 403, for each of these requests.
for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}):
    assert http.get(base + "/conversations", headers=headers, timeout=patience).status_code == 403
assert post("/conversations/create", {"label": "x"}, status=403)["error"]
# Other methods and paths.
assert http.put(base + "/conversations", timeout=patience).status_code == 405
assert http.get(base + "/auth/login", timeout=patience).status_code == 405
assert http.get(base + "/auth/logout", timeout=patience).status_code == 404
# A token that an operator has made is as good.
alice = sys.argv[2]
assert http.get(
    base + "/conversations", headers={"Authorization": "Bearer " + alice}, timeout=patience
).json() == {"conversations": []}
print("refusals well", flush=True)
