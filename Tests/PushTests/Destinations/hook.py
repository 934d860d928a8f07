# Receivers of signed requests for tests: targets at any path, and the hook that is asked for
# contents at /hook. It verifies with the public library `standardwebhooks` where it is there.
#
#   hook.py [--plan PATH=STEP|STEP…] [--quiet] SECRET
#
# A step is a status, STATUS:BODY, 429:SECONDS with Retry-After, stall, half, close, or fields: an
# answer with fields behind its content that do not end. After its plan a path is answered with 200. With --quiet it prints only the delays since `time` of the requests,
# after every thousand.
import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--plan", action="append", default=[])
parser.add_argument("--quiet", action="store_true")
parser.add_argument("secret")
options = parser.parse_args()
plans = {"/" + name: steps.split("|") for name, steps in (p.split("=", 1) for p in options.plan)}
try:
    from standardwebhooks import Webhook

    library = Webhook(options.secret)
except ImportError:
    library = None
key = base64.b64decode(options.secret.removeprefix("whsec_"))
delays = []


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fault(head, body):
    stamp = head.get("webhook-timestamp", "0")
    content = f"{head.get('webhook-id')}.{stamp}.".encode() + body
    digest = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    if f"v1,{digest}" not in head.get("webhook-signature", "").split(" "):
        return "signature"
    if abs(time.time() - int(stamp)) > 300:
        return "timestamp"
    if library and not options.quiet:
        try:
            library.verify(body, head)
        except Exception as error:
            return f"library {error!r}"
    event = json.loads(body)
    if event["id"] != head["webhook-id"] or set(event) != {"id", "type", "timestamp", "data"}:
        return "body"
    return None


class Receiver(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.bytes = b""

    def data_received(self, data):
        self.bytes += data
        while (end := self.bytes.find(b"\r\n\r\n")) >= 0:
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
        wrong = fault(head, body)
        if wrong:
            say(f"fault {wrong}")
            return self.reply(400)
        data = json.loads(body)["data"]
        if options.quiet:
            delays.append(time.time() * 1000 - data["time"])
            if len(delays) % 1000 == 0:
                delays.sort()
                say(
                    f"figures count={len(delays)} p50_ms={delays[len(delays) // 2]:.0f} "
                    f"p99_ms={delays[int(len(delays) * 0.99)]:.0f} max_ms={delays[-1]:.0f} .")
            return self.reply(200)
        steps = plans.get(path)
        step = steps.pop(0) if steps else "200"
        say(f"request path={path} step={step} id={head['webhook-id']} data={json.dumps(data)} .")
        if step == "stall":
            return None
        if step == "close":
            return self.transport.abort()
        if step == "fields":
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
            self.flooded = 0
            return self.flood()
        if step == "half":
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            return self.transport.close()
        status, _, rest = step.partition(":")
        if status == "429":
            return self.reply(429, b"", f"Retry-After: {rest}\r\n")
        return self.reply(int(status), rest.encode())

    def flood(self):
        if self.transport.is_closing() or self.flooded >= 1 << 30:
            return say(f"fields bytes={self.flooded}")
        if self.transport.get_write_buffer_size() < 1 << 20:
            line = b"X-a: " + b"a" * 1000 + b"\r\n"
            self.transport.write(line * 64)
            self.flooded += len(line) * 64
        asyncio.get_running_loop().call_soon(self.flood)

    def reply(self, status, body=b"", field=""):
        self.transport.write(
            f"HTTP/1.1 {status} Status\r\n{field}Content-Length: {len(body)}\r\n\r\n".encode()
            + body)


async def main():
    # On all addresses of the loopback network, so that tests have many destinations.
    server = await asyncio.get_running_loop().create_server(
        Receiver, "0.0.0.0", 0, backlog=4096)
    say(f"port={server.sockets[0].getsockname()[1]}.")
    await server.serve_forever()


asyncio.run(main())
