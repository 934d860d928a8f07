# The destination of webhooks: verifies Standard Webhooks by its own HMAC and, where it is installed,
# by the library `standardwebhooks`. It prints a line for each request and for each event that it
# accepts, and fails as it is told.
#
#   webhook_receiver.py [--port N] [--certificate FILE] [--plan HOOK=STEP,STEP…] [--chaos SEED]
#                       [--library] [--quiet] [--slow MILLISECONDS] SECRET [SECRET]
#
# A step of a plan is for one request to /HOOK: a status, 429:SECONDS, stall, half, close, long, or
# redirect. After the plan the hook answers 200. With --chaos one request in three fails at random.
# Only what is answered with 200 counts as accepted; `half` has processed the event, and fails.
#
# It decides on messages by the first word of their text, after at most --slow milliseconds, and
# prints a line for each question and each decision, with the time of CLOCK_MONOTONIC.
import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import random
import ssl
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--certificate")
parser.add_argument("--plan", action="append", default=[])
parser.add_argument("--chaos", type=int)
parser.add_argument("--library", action="store_true")
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--slow", type=int, default=0)
parser.add_argument("secrets", nargs="+")
options = parser.parse_args()

keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in options.secrets]
plans = {}
for plan in options.plan:
    name, steps = plan.split("=", 1)
    plans["/" + name] = steps.split(",")
chaos = None if options.chaos is None else random.Random(options.chaos)
libraries = []
if options.library:
    from standardwebhooks import Webhook

    libraries = [Webhook(secret) for secret in options.secrets]
total = {"requests": 0, "events": 0, "first": None, "last": None}
delays = []
arrived = asyncio.Event()


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def verify(head, body):
    """What is wrong with a request; None for nothing."""
    stamp = head.get("webhook-timestamp", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > 300:
        return "timestamp " + stamp
    content = f"{head.get('webhook-id', '')}.{stamp}.".encode() + body
    signatures = head.get("webhook-signature", "").split(" ")
    if len(signatures) != len(keys):
        return f"{len(signatures)} signatures"
    for key, signature in zip(keys, signatures):
        digest = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        if not hmac.compare_digest("v1," + digest, signature):
            return "signature " + signature
    for library in libraries:
        try:
            library.verify(body, head)
        except Exception as error:
            return f"library {error!r}"
    try:
        event = json.loads(body)
    except ValueError:
        return "no JSON"
    if set(event) - {"id"} != {"type", "timestamp", "data"}:
        return "members " + " ".join(sorted(event))
    if event["type"] != "batch" and event["id"] != head["webhook-id"]:
        return "two ids"
    if head.get("content-type") != "application/json":
        return "content type"
    return None


def events(body):
    event = json.loads(body)
    return event["data"]["events"] if event["type"] == "batch" else [event]


def verdict(word, rest):
    """The answer to a question; None for none."""
    answers = {
        "bad": '{"verdict":"refuse","code":-4408,"reason":"no such words"}',
        "shout": json.dumps({"verdict": "rewrite", "code": 5, "b": "quiet " + rest}),
        "nonsense": '{"verdict":"refuse',
        "wrong": '{"verdict":"refuse","code":4408}',
        "other": '{"verdict":"perhaps"}',
        "huge": json.dumps({"verdict": "rewrite", "b": "x" * 5000}),
        "stall": None,
        "error": None,
    }
    return answers.get(word, '{"verdict":"accept"}')


class Receiver(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.bytes = b""

    def data_received(self, data):
        self.bytes += data
        while True:
            end = self.bytes.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.bytes[:end].decode().split("\r\n")
            head = {
                name.lower(): value.strip()
                for name, value in (line.split(":", 1) for line in lines[1:])
            }
            count = int(head.get("content-length", 0))
            if len(self.bytes) < end + 4 + count:
                return
            body = self.bytes[end + 4 : end + 4 + count]
            self.bytes = self.bytes[end + 4 + count :]
            self.answer(lines[0].split(" ")[1], head, body)

    def answer(self, path, head, body):
        total["requests"] += 1
        fault = verify(head, body)
        if fault:
            say(f"fault {fault}")
            return self.status(400)
        if json.loads(body)["type"] == "message.question":
            return self.decide(json.loads(body)["data"])
        steps = plans.get(path)
        step = steps.pop(0) if steps else "200"
        if chaos and chaos.random() < 1 / 3:
            step = chaos.choice(["500", "503", "429:1", "half", "close", "400"])
        if not options.quiet:
            say(f"request hook={path[1:]} id={head['webhook-id']} step={step}")
        if step == "stall":
            return
        if step == "close":
            return self.transport.abort()
        if step == "half":
            self.accept(path, body, "half")
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            return self.transport.close()
        if step == "redirect":
            self.transport.write(
                b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
            )
            return None
        if step.startswith("429"):
            seconds = step.split(":")[1]
            return self.status(429, f"Retry-After: {seconds}\r\n")
        if step == "long":
            self.accept(path, body, "event")
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")
            self.transport.write(b"x" * 10000000)
            return None
        if step == "200":
            self.accept(path, body, "event")
        return self.status(int(step))

    def decide(self, data):
        text = data.get("b", data.get("payload", ""))
        say(f"question number={data['number']} from={data['from']} text={text}.")
        word, _, rest = text.partition(" ")
        answer = verdict(word, rest)
        if word == "error":
            return self.status(500)
        if answer is None:
            return None
        delay = random.random() * options.slow / 1000
        asyncio.get_running_loop().call_later(delay, self.tell, text, answer)
        return None

    def tell(self, text, answer):
        say(f"decided at={time.monotonic_ns()} text={text}. answer={answer}")
        self.transport.write(
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode()
        )

    def accept(self, path, body, word):
        now = time.time()
        total["first"] = total["first"] or now
        total["last"] = now
        for event in events(body):
            total["events"] += 1
            arrived.set()
            data = event["data"]
            delays.append(now * 1000 - data.get("time", 0))
            if options.quiet:
                continue
            source = data.get("topic") or data.get("group") or data.get("from", "")
            text = data.get("b", data.get("payload", data.get("content", {}).get("text", "")))
            say(f"{word} hook={path[1:]} type={event['type']} id={event['id']} "
                f"source={source} text={text}.")

    def status(self, status, field=""):
        self.transport.write(
            f"HTTP/1.1 {status} Status\r\n{field}Content-Length: 0\r\n\r\n".encode()
        )


async def main():
    context = None
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Receiver, "127.0.0.1", options.port, ssl=context)
    say(f"port={server.sockets[0].getsockname()[1]}.")
    while True:
        # Figures for measurements, when nothing has come for a second.
        await arrived.wait()
        arrived.clear()
        try:
            await asyncio.wait_for(arrived.wait(), 1)
            continue
        except asyncio.TimeoutError:
            before = total["events"]
        if options.quiet and delays:
            delays.sort()
            seconds = max(total["last"] - total["first"], 0.001)
            say(
                f"figures events={before} requests={total['requests']} seconds={seconds:.3f} "
                f"rate={before / seconds:.0f} p50_ms={delays[len(delays) // 2]:.1f} "
                f"p99_ms={delays[int(len(delays) * 0.99)]:.1f} max_ms={delays[-1]:.1f}"
            )
            total.update(requests=0, events=0, first=None, last=None)
            delays.clear()


asyncio.run(main())
