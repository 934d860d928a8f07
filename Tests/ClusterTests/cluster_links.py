"""Links between the programs of a cluster on loopback, which can be cut: a connection through a cut
link carries nothing and does not end, like one over a network that loses every packet.

    cluster_links.py

For each line of standard input it prints one line:
    open NAME PORT   a port that leads to PORT over the link NAME, in both directions
    cut NAME         `ok`; what is under way waits
    heal NAME        `ok`; what has waited goes on
"""
import asyncio
import sys

BLOCK = 65536


class Link:
    def __init__(self):
        self.carries = asyncio.Event()
        self.carries.set()


async def pump(link, reader, writer):
    try:
        while True:
            block = await reader.read(BLOCK)
            # An end is not told over a cut link either.
            await link.carries.wait()
            if not block:
                break
            writer.write(block)
            await writer.drain()
    except OSError:
        await link.carries.wait()
    finally:
        writer.close()


async def connect(link, port, reader, writer):
    await link.carries.wait()
    try:
        there = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(link, reader, there[1]), pump(link, there[0], writer))


async def answer(links, words):
    command, name = words[:2]
    link = links.setdefault(name, Link())
    if command == "open":
        server = await asyncio.start_server(
            lambda r, w: connect(link, int(words[2]), r, w), "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]
    if command == "cut":
        link.carries.clear()
    else:
        link.carries.set()
    return "ok"


async def main():
    links = {}
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        print(await answer(links, line.decode().split()), flush=True)


asyncio.run(main())
