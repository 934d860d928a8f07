# A broker of MQTT 3.1.1 for tests that only takes publications of QoS 1.
#
#   mqtt.py [--plan STEP,STEP…] [--poison WORD] [--forget WORD] [--silent] [--chatter] USER PASSWORD
#
# A step is for one publication: ok, close, or stall. After the plan all are acknowledged. A topic
# with the word of --poison always closes the connection, and one with that of --forget is never
# acknowledged. With --silent it answers no login, and with --chatter it sends a PINGRESP ten times
# a second.
import argparse
import asyncio
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--plan", default="")
parser.add_argument("--poison")
parser.add_argument("--forget")
parser.add_argument("--silent", action="store_true")
parser.add_argument("--chatter", action="store_true")
parser.add_argument("user")
parser.add_argument("password")
options = parser.parse_args()
plan = [step for step in options.plan.split(",") if step]


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def packet(reader):
    first = (await reader.readexactly(1))[0]
    count, shift = 0, 0
    while True:
        byte = (await reader.readexactly(1))[0]
        count |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return first, await reader.readexactly(count)


def texts(body, offset):
    while offset < len(body):
        count = int.from_bytes(body[offset : offset + 2], "big")
        yield body[offset + 2 : offset + 2 + count].decode()
        offset += 2 + count


def chatter(writer):
    if not writer.is_closing():
        writer.write(b"\xd0\x00")
        asyncio.get_running_loop().call_later(0.1, chatter, writer)


async def serve(reader, writer):
    try:
        first, body = await packet(reader)
        if first != 0x10 or body[:7] != b"\x00\x04MQTT\x04" or body[7] != 0xC2:
            say(f"fault connect {body.hex()}")
            return writer.close()
        _, user, password = texts(body, 10)
        accepted = (user, password) == (options.user, options.password)
        say(f"connect user={user} accepted={accepted}")
        if not options.silent:
            writer.write(bytes([0x20, 2, 0, 0 if accepted else 5]))
        if options.chatter:
            chatter(writer)
        while accepted:
            first, body = await packet(reader)
            if first == 0xE0:
                break
            if first & 0xF6 != 0x32:
                say(f"fault packet {first:02x}")
                break
            count = int.from_bytes(body[:2], "big")
            topic, identifier = body[2 : 2 + count].decode(), body[2 + count : 4 + count]
            step = plan.pop(0) if plan else "ok"
            if options.poison and options.poison in topic:
                step = "close"
            if options.forget and options.forget in topic:
                step = "stall"
            say(f"publish topic={topic} step={step} payload={body[4 + count :].decode()} .")
            if step == "close":
                break
            if step == "ok":
                writer.write(bytes([0x40, 2]) + identifier)
    except asyncio.IncompleteReadError:
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    say(f"port={server.sockets[0].getsockname()[1]}.")
    await server.serve_forever()


asyncio.run(main())
