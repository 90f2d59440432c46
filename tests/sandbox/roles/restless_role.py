"""Children that leave threads and processes running behind their answers."""

import json
import os
import signal
import threading


def main(channel, scratch):
    """Answer one request after another."""
    while True:
        order = json.loads(channel.receive().payload)
        channel.send(json.dumps(ACTS[order.pop("act")](**order)).encode())


def spin():
    while True:
        pass


def burn(threads, processes):
    """Work that nobody asked for, in this process and in others."""
    for _ in range(threads):
        threading.Thread(target=spin, daemon=True).start()
    for _ in range(processes):
        if os.fork() == 0:
            spin()


def wake_each_other(processes):
    """Each one sends all others on their way, again and again."""
    group = [os.getpid()]
    for _ in range(processes):
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(writer)
            others = json.loads(os.read(reader, 4096))
            while True:
                for other in others:
                    os.kill(other, signal.SIGCONT)
        group.append(pid)
        os.write(writer, json.dumps(group[:-1]).encode())


def ping():
    return "pong"


ACTS = {"burn": burn, "wake_each_other": wake_each_other, "ping": ping}
