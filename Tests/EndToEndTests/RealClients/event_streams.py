"""Event streams that are opened at once, and what another client notices of it.

    event_streams.py PORT APP-KEY STREAMS FILTERS

Prints how many requests for health were answered one after the other, from the time at which all
requests for streams had been sent until the last stream had all its subscriptions. A pause of this
process takes answers away, and a slow disk adds some: the middle one of three rounds counts.
"""

import sys

# The folder of this script is not the place of the library that has the name of another script.
sys.path.pop(0)

import asyncio
import urllib.parse

PORT, STREAMS, FILTERS = int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
KEY = sys.argv[2]


def request(round, number):
    members = [("app", "demo"), ("user", f"user{round}-{number}"), ("device", "d")]
    members += [("sessionExpirySeconds", "3600")]
    members += [("subscribe", f"site/{number}/{filter}/#") for filter in range(FILTERS)]
    return (
        f"GET /api/v1/events?{urllib.parse.urlencode(members)} HTTP/1.1\r\n"
        f"Host: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    ).encode()


async def read_answers(reader):
    answered = 0
    while answered < FILTERS:
        line = await reader.readline()
        assert line, "the stream ended"
        if b'"type":"response"' in line:
            assert b'"reason":0' in line, line
            answered += 1


async def count_health(done):
    answered = 0
    while not done.is_set():
        reader, writer = await asyncio.open_connection("localhost", PORT)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        line = await reader.readline()
        assert b" 200 " in line, line
        writer.close()
        answered += 1
    return answered


async def answered_in(round):
    streams = [await asyncio.open_connection("localhost", PORT) for _ in range(STREAMS)]
    for number, (_, writer) in enumerate(streams):
        writer.write(request(round, number))
    done = asyncio.Event()
    health = asyncio.create_task(count_health(done))
    await asyncio.gather(*(read_answers(reader) for reader, _ in streams))
    done.set()
    answered = await health
    for _, writer in streams:
        writer.close()
    return answered


async def main():
    print(sorted([await answered_in(round) for round in range(3)])[1])


asyncio.run(main())
