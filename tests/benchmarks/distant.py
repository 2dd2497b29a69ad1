"""A program: what is asked at one address is answered from another, but later.

Usage: python distant.py PORT SECONDS. Every byte of an answer arrives SECONDS after it was sent;
ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading


async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not piece:
                writer.close()
                return
            writer.write(piece)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    piece = b"-"
    while piece:
        piece = await reader.read(1 << 16)
        pieces.put_nowait((loop.time() + delay, piece))
    await delivery


async def main(port: int, delay: float) -> None:
    async def serve(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        try:
            far, to_far = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            await asyncio.gather(late(near, to_far, 0.0), late(far, out, delay))
        except OSError:
            out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


def end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_stdin, daemon=True).start()
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
