# The destination of Firebase for tests: the endpoint for access tokens and that for messages.
#
#   fcm.py --certificate FILE --public-key FILE --account EMAIL [--token-plan STEP,…]
#          [--plan TOKEN=STEP,STEP…]
#
# A step is a status, STATUS:ERROR, 429:ERROR:SECONDS, or stall. After its plan a token is answered
# with 200. An access token is valid for a number of requests only, as `expire` in a plan ends it.
import argparse
import base64
import http.server
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

parser = argparse.ArgumentParser()
parser.add_argument("--certificate", required=True)
parser.add_argument("--public-key", required=True)
parser.add_argument("--account", required=True)
parser.add_argument("--token-plan", default="")
parser.add_argument("--plan", action="append", default=[])
options = parser.parse_args()

lock = threading.Lock()
plans = {name: steps.split(",") for name, steps in (p.split("=", 1) for p in options.plan)}
token_plan = [step for step in options.token_plan.split(",") if step]
key = serialization.load_pem_public_key(open(options.public_key, "rb").read())
state = {"count": 0, "token": None, "port": 0}


def say(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def assertion_fault(body):
    form = urllib.parse.parse_qs(body.decode())
    if form.get("grant_type") != ["urn:ietf:params:oauth:grant-type:jwt-bearer"]:
        return "unsupported_grant_type"
    parts = form["assertion"][0].split(".")
    try:
        key.verify(
            decoded(parts[2]), f"{parts[0]}.{parts[1]}".encode(), padding.PKCS1v15(),
            hashes.SHA256())
    except InvalidSignature:
        return "invalid_grant"
    header, claims = json.loads(decoded(parts[0])), json.loads(decoded(parts[1]))
    if header["alg"] != "RS256" or claims["iss"] != options.account:
        return "invalid_grant"
    if claims["scope"] != "https://www.googleapis.com/auth/firebase.messaging":
        return "invalid_scope"
    if claims["aud"] != f"https://localhost:{state['port']}/token":
        return "invalid_grant"
    if abs(time.time() - claims["iat"]) > 300 or claims["exp"] - claims["iat"] > 3600:
        return "invalid_grant"
    return None


def message_fault(message):
    if set(message) - {"token", "notification", "data", "android", "apns", "webpush", "fcm_options"}:
        return "INVALID_ARGUMENT"
    if any(not isinstance(value, str) for value in message.get("data", {}).values()):
        return "INVALID_ARGUMENT"
    if not re.fullmatch(r"[0-9]+s", message.get("android", {}).get("ttl", "0s")):
        return "INVALID_ARGUMENT"
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/token":
            return self.token(body)
        if self.path != "/v1/projects/project-1/messages:send":
            say(f"fault path {self.path}")
            return self.reply(404, {"error": {"status": "NOT_FOUND"}})
        if self.headers.get("authorization") != f"Bearer {state['token']}":
            say("unauthorized")
            return self.reply(401, {"error": {"status": "UNAUTHENTICATED"}})
        message = json.loads(body)["message"]
        fault = message_fault(message)
        if fault:
            say(f"fault {fault} {body.decode()}")
            return self.reply(400, {"error": {"status": fault}})
        with lock:
            steps = plans.get(message["token"])
            step = steps.pop(0) if steps else "200"
        say(f"request token={message['token']} step={step} body={body.decode()} .")
        if step == "stall":
            self.rfile.read(1)  # Until the relay gives up.
        if step == "expire":
            state["token"] = None
            return self.reply(401, {"error": {"status": "UNAUTHENTICATED"}})
        status, _, rest = step.partition(":")
        error, _, seconds = rest.partition(":")
        if status == "200":
            return self.reply(200, {"name": "projects/project-1/messages/1"})
        details = [{
            "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": error}]
        self.reply(
            int(status), {"error": {"code": int(status), "status": "X", "details": details}},
            seconds)

    def token(self, body):
        with lock:
            step = token_plan.pop(0) if token_plan else "200"
        say(f"token step={step}")
        fault = assertion_fault(body)
        if fault:
            say(f"fault {fault}")
            return self.reply(400, {"error": fault})
        if step != "200":
            return self.reply(int(step), {})
        with lock:
            state["count"] += 1
            state["token"] = f"access-{state['count']}"
        self.reply(
            200, {"access_token": state["token"], "expires_in": 3599, "token_type": "Bearer"})

    def reply(self, status, content, retry_after=""):
        content = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        if retry_after:
            self.send_header("retry-after", retry_after)
        self.end_headers()
        self.wfile.write(content)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options.certificate)
server.socket = context.wrap_socket(server.socket, server_side=True)
state["port"] = server.server_address[1]
say(f"port={state['port']}.")
server.serve_forever()
