"""The judge: one trusted process per device that holds the operator file, the inputs, the truth and the outer clock.

Answers the controller's requests (execute/wire.py) on `width` threads. It runs no model-written code: candidates and
their kernels live in confined forks of its zygote, the user's baselines in a process beside it. The process ends when
the controller hangs up, and everything it started ends with it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from kernelsmith.errors import InfrastructureError, KernelsmithError
from kernelsmith.evaluate.rooms import Rooms
from kernelsmith.execute.wire import (
    REQUESTS,
    Broken,
    Describe,
    Described,
    Evaluate,
    Evaluated,
    FindSeeds,
    JudgeReply,
    JudgeRequest,
    SeedsFound,
    Waiting,
    broken,
)
from kernelsmith.sandbox.wire.protocol import Channel, ProtocolError

CLOSE_SECONDS = 5.0
"""For ending everything in good order once the controller has hung up."""


class Judge:
    """Reads requests, answers each on a thread of its own, writes replies one at a time."""

    def __init__(self, channel: Channel, rooms: Rooms, width: int) -> None:
        self._channel = channel
        self._rooms = rooms
        self._pool = ThreadPoolExecutor(width, thread_name_prefix="judge")
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Until the controller hangs up."""
        while True:
            try:
                request = REQUESTS.validate_json(self._channel.receive().payload)
            except ProtocolError:
                return
            self._pool.submit(self._answer, request)

    def _answer(self, request: JudgeRequest) -> None:
        reply: JudgeReply
        try:
            reply = self._work(request)
        except KernelsmithError as error:
            reply = broken(request.id, error)
        except BaseException as error:  # noqa: BLE001 - the edge of the process; an exit that escaped must not lose it
            traceback.print_exc()
            reply = _failed(request, error)
        try:
            self._send(reply)
        except ProtocolError:
            traceback.print_exc()
        except Exception as error:  # noqa: BLE001 - an answer that no frame holds: whoever waits is told so instead
            traceback.print_exc()
            self._send(_failed(request, error))

    def _send(self, reply: JudgeReply) -> None:
        payload = reply.model_dump_json().encode()
        with self._sending:
            self._channel.send(payload)

    def _work(self, request: JudgeRequest) -> JudgeReply:
        match request:
            case Describe():
                return Described(id=request.id, info=self._rooms.room().operator(request.operator).info)
            case FindSeeds():
                return SeedsFound(id=request.id, seeds=self._rooms.room().seeds(request.operator))
            case Evaluate():

                def tell(why: str) -> None:
                    self._send(Waiting(id=request.id, why=why))

                return Evaluated(id=request.id, evaluation=self._rooms.evaluate(request.job, tell))


def _failed(request: JudgeRequest, error: BaseException) -> Broken:
    return broken(request.id, InfrastructureError(f"the judge failed: {type(error).__name__}: {error}"))


def main() -> None:
    """Entry of `python -m kernelsmith.evaluate.judge`, started by execute/local.py."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--targets", type=Path)
    parser.add_argument("--width", type=int, default=2)
    parser.add_argument("--unsafe-no-sandbox", action="store_true")
    arguments = parser.parse_args()
    os.set_inheritable(arguments.fd, False)
    rooms = Rooms(arguments.target, targets=arguments.targets, unsafe_no_sandbox=arguments.unsafe_no_sandbox)
    run(Channel(socket.socket(fileno=arguments.fd)), rooms, arguments.width)


def run(channel: Channel, rooms: Rooms, width: int) -> NoReturn:
    """Serve until the controller hangs up, then end the process."""
    status = 1
    try:
        Judge(channel, rooms, width).serve()
        status = 0
    except BaseException:  # noqa: BLE001 - the edge of the process: these are its last words
        traceback.print_exc()
    finally:
        # What a room started dies with us, whatever keeps it from being closed.
        last = threading.Timer(CLOSE_SECONDS, os._exit, (1,))
        last.daemon = True
        last.start()
        rooms.close()
        sys.stdout.flush()
        os._exit(status)  # threads may still wait for candidates that are dead by now


if __name__ == "__main__":
    main()
