# The destination of APNs for tests: HTTP/2 with the library `h2`, strict about what Apple documents.
#
#   apns.py --certificate FILE [--client-ca FILE] [--public-key FILE --key-id ID --team ID]
#           [--plan TOKEN=STEP,STEP…] TOPIC
#
# A step is for one request to a token: a status, STATUS:REASON, stall, close, or half. After its
# plan a token is answered with 200. It prints a line for each request.
import argparse
import base64
import json
import re
import socket
import ssl
import sys
import threading
import time
import uuid

import h2.config
import h2.connection
import h2.events
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

parser = argparse.ArgumentParser()
parser.add_argument("--certificate", required=True)
parser.add_argument("--client-ca")
parser.add_argument("--public-key")
parser.add_argument("--key-id")
parser.add_argument("--team")
parser.add_argument("--plan", action="append", default=[])
parser.add_argument("topic")
options = parser.parse_args()

lock = threading.Lock()
plans = {}
for plan in options.plan:
    name, steps = plan.split("=", 1)
    plans[name] = steps.split(",")
public_key = None
if options.public_key:
    public_key = serialization.load_pem_public_key(open(options.public_key, "rb").read())


def say(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def proof_fault(head):
    if public_key is None:
        return None if "authorization" not in head else "MissingProviderToken"
    words = head.get("authorization", "").split(" ")
    if len(words) != 2 or words[0] != "bearer":
        return "MissingProviderToken"
    parts = words[1].split(".")
    if len(parts) != 3:
        return "InvalidProviderToken"
    header, claims = json.loads(decoded(parts[0])), json.loads(decoded(parts[1]))
    signature = decoded(parts[2])
    if header.get("alg") != "ES256" or header.get("kid") != options.key_id:
        return "InvalidProviderToken"
    if claims.get("iss") != options.team or len(signature) != 64:
        return "InvalidProviderToken"
    if not -60 < time.time() - claims["iat"] < 3600:
        return "ExpiredProviderToken"
    pair = encode_dss_signature(
        int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
    try:
        public_key.verify(
            pair, f"{parts[0]}.{parts[1]}".encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return "InvalidProviderToken"
    return None


def fault(head, body):
    """Status and reason of a request that is not as Apple wants it."""
    if head[":method"] != "POST":
        return 405, "MethodNotAllowed"
    match = re.fullmatch(r"/3/device/([0-9a-fA-F]{16,200})", head[":path"])
    if not match:
        return 404, "BadPath"
    reason = proof_fault(head)
    if reason:
        return 403, reason
    if head.get("apns-topic") != options.topic:
        return 400, "BadTopic"
    try:
        uuid.UUID(head.get("apns-id", ""))
    except ValueError:
        return 400, "BadMessageId"
    if head.get("apns-priority") not in ("1", "5", "10"):
        return 400, "BadPriority"
    if int(head.get("apns-expiration", "0")) <= time.time():
        return 400, "BadExpirationDate"
    if head.get("apns-push-type") not in ("alert", "background"):
        return 400, "InvalidPushType"
    if len(body) > 4096:
        return 413, "PayloadTooLarge"
    try:
        if not isinstance(json.loads(body)["aps"], dict):
            return 400, "BadAps"
    except (ValueError, KeyError):
        return 400, "PayloadEmpty"
    return None


def serve(stream, address):
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    connection.initiate_connection()
    stream.sendall(connection.data_to_send())
    requests = {}
    say("connection")
    while True:
        try:
            data = stream.recv(65536)
        except OSError:
            return
        if not data:
            return
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                requests[event.stream_id] = [dict(event.headers), b""]
            elif isinstance(event, h2.events.DataReceived):
                requests[event.stream_id][1] += event.data
                connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                head, body = requests.pop(event.stream_id)
                if not answer(connection, stream, event.stream_id, head, body):
                    return
            elif isinstance(event, h2.events.ConnectionTerminated):
                return
        stream.sendall(connection.data_to_send())


def answer(connection, stream, number, head, body):
    token = head[":path"].rsplit("/", 1)[1]
    found = fault(head, body)
    if found:
        status, reason = found
        say(f"fault token={token} reason={reason}")
        return respond(connection, number, status, reason)
    with lock:
        steps = plans.get(token)
        step = steps.pop(0) if steps else "200"
    say(f"request token={token} step={step} id={head['apns-id']} body={body.decode()} .")
    if step == "stall":
        return True
    if step == "close":
        stream.close()
        return False
    if step == "half":
        connection.send_headers(number, [(":status", "200"), ("content-length", "100")])
        stream.sendall(connection.data_to_send())
        stream.close()
        return False
    status, _, reason = step.partition(":")
    return respond(connection, number, int(status), reason)


def respond(connection, number, status, reason):
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    head = [(":status", str(status)), ("date", date)]
    content = json.dumps({"reason": reason}).encode() if reason else b""
    if status == 410:
        content = json.dumps({"reason": reason, "timestamp": 1}).encode()
    connection.send_headers(number, head, end_stream=not content)
    if content:
        connection.send_data(number, content, end_stream=True)
    return True


def accept(stream, address):
    try:
        with context.wrap_socket(stream, server_side=True) as secure:
            if secure.selected_alpn_protocol() != "h2":
                say("fault no h2")
                return
            serve(secure, address)
    except OSError as error:
        say(f"handshake {type(error).__name__}")


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options.certificate)
context.set_alpn_protocols(["h2"])
if options.client_ca:
    context.load_verify_locations(options.client_ca)
    context.verify_mode = ssl.CERT_REQUIRED
listener = socket.create_server(("127.0.0.1", 0), backlog=128)
say(f"port={listener.getsockname()[1]}.")
while True:
    threading.Thread(target=accept, args=listener.accept(), daemon=True).start()
