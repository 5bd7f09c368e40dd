"""An ACP agent that tries to reach the network: itself, through its child, and in a terminal of the worker's.

argv: ports of TCP, UDP and the proxy, then who tries. Data that gets through contains the name of the attempt, so that the
listeners know what reached them. An attempt that opens no connection is recorded in the file `results`.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import urllib.request

TCP, UDP, PROXY = (int(port) for port in sys.argv[1:4])
WHO = sys.argv[4] if len(sys.argv) > 4 else "agent"
FAST_OPEN, MPTCP, IO_URING_SETUP = 0x20000000, 262, 425
V4, V6, STREAM, DATAGRAM = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM


def name(what):
    return f"{WHO}/{what}\n".encode()


def connects(what, family, address, protocol=0):
    with socket.socket(family, STREAM, protocol) as s:
        s.settimeout(5)
        s.connect(address)
        s.sendall(name(what))


def sends_with_the_opening(what, send):
    with socket.socket(V4, STREAM) as s:
        send(s, name(what))


def sends(what, family, address, connected):
    with socket.socket(family, DATAGRAM) as s:
        if connected:
            s.connect(address)
            s.send(name(what))
        else:
            s.sendto(name(what), address)


def creates(what, *makes):
    with socket.socket(*makes):
        record(what)


def listens(what):
    with socket.socket(V4, STREAM) as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        record(what)


def listens_unbound(what):
    with socket.socket(V4, STREAM) as s:
        s.listen()
        record(what)


def rings(what):
    if ctypes.CDLL(None).syscall(IO_URING_SETUP, 1, ctypes.create_string_buffer(120)) < 0:
        raise OSError("refused")
    record(what)


def meets_by_path(what):
    path = f"{what}-{WHO}"
    with socket.socket(socket.AF_UNIX) as there, socket.socket(socket.AF_UNIX) as here:
        there.bind(path)
        there.listen()
        here.connect(path)
        record(what)


def fetches(what):
    with urllib.request.urlopen(f"http://model.invalid/{WHO}/{what}", timeout=5) as answer:
        answer.read()


def record(what):
    with open("results", "ab") as results:
        results.write(name(what))


ATTEMPTS = {
    "tcp": lambda it: connects(it, V4, ("127.0.0.1", TCP)),
    "tcp-any-address": lambda it: connects(it, V4, ("0.0.0.0", TCP)),
    "tcp-mapped": lambda it: connects(it, V6, ("::ffff:127.0.0.1", TCP)),
    "tcp-multipath": lambda it: connects(it, V4, ("127.0.0.1", TCP), MPTCP),
    "tcp-fast-open": lambda it: sends_with_the_opening(
        it, lambda s, data: s.sendto(data, FAST_OPEN, ("127.0.0.1", TCP))
    ),
    "tcp-fast-open-message": lambda it: sends_with_the_opening(
        it, lambda s, data: s.sendmsg([data], [], FAST_OPEN, ("127.0.0.1", TCP))
    ),
    "udp": lambda it: sends(it, V4, ("127.0.0.1", UDP), False),
    "udp-connected": lambda it: sends(it, V4, ("127.0.0.1", UDP), True),
    "udp-mapped": lambda it: sends(it, V6, ("::ffff:127.0.0.1", UDP), False),
    "proxy": lambda it: connects(it, V4, ("127.0.0.1", PROXY)),
    "fetch-by-proxy": fetches,
    "listen": listens,
    "listen-unbound": listens_unbound,
    "raw": lambda it: creates(it, V4, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "ping": lambda it: creates(it, V4, DATAGRAM, socket.IPPROTO_ICMP),
    "sctp": lambda it: creates(it, V4, STREAM, 132),
    "packet": lambda it: creates(it, socket.AF_PACKET, socket.SOCK_RAW, 0),
    "vsock": lambda it: creates(it, socket.AF_VSOCK, STREAM),
    "kernel-events": lambda it: creates(it, socket.AF_NETLINK, DATAGRAM, 15),
    "io-uring": rings,
    "path-socket": meets_by_path,
}


def attempt():
    for what, tries in ATTEMPTS.items():
        try:
            tries(what)
        except OSError:
            pass


def serve():
    waiting = None

    def write(message):
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def ask(method, params):
        write({"id": method, "method": method, "params": {"sessionId": "s", **params}})

    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        answers = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
        again = [sys.executable, __file__, *sys.argv[1:4]]
        if method in answers:
            write({"id": message["id"], "result": answers[method]})
        elif method == "session/prompt":
            waiting = message["id"]
            attempt()
            subprocess.run([*again, "child"], check=True)
            ask("terminal/create", {"command": again[0], "args": [*again[1:], "terminal"]})
        elif message.get("id") == "terminal/create" and "result" in message:
            ask("terminal/wait_for_exit", message["result"])
        elif "id" in message and method is None:
            write({"id": waiting, "result": {"stopReason": "end_turn"}})


if WHO == "agent":
    serve()
else:
    attempt()
