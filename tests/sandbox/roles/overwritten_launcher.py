"""A launcher whose memory a kernel has overwritten: how it lies is the name of the first kernel it was given.

It stands for native code that does the same: all that such code can do is answer the judge's questions otherwise.
"""

import threading

from kernelsmith.devices import open_device
from kernelsmith.sandbox.replay import launcher
from kernelsmith.sandbox.wire import tensors


class Overwritten(launcher.Launcher):
    """Honest, but for the requests that its lie is about."""

    lie = "kernel"

    def _prepare(self, request, arenas):
        self.lie = request.plan.kernels[0].name
        self.leftover = None
        return super()._prepare(request, arenas)

    def _sample(self, request, arena):
        workspace = self._prepared[request.plan_id]
        if self.lie in ("works_before_the_clock", "works_after_the_answer", "works_when_asked_to_show"):
            self._flush = self._device.reserve(0)
            workspace.reset([tensors.region_bytes(arena, region) for region in request.inputs], request.poison)
            if self.lie == "works_before_the_clock":
                workspace.run()
            elif self.lie == "works_after_the_answer":
                self.leftover = threading.Thread(target=workspace.run)
                self.leftover.start()
            return launcher.Sampled(nanoseconds=15_000, state_intact=True)
        sampled = super()._sample(request, arena)
        lies = self.lie in ("claims_a_tenth", "runs_one_of_many")
        return sampled.model_copy(update={"nanoseconds": sampled.nanoseconds // (10 if lies else 1)})

    def _keep(self, request, arenas):
        if self.leftover is not None:
            self.leftover.join()
        if self.lie == "works_when_asked_to_show":
            self._prepared[request.plan_id].run()
        return super()._keep(request, arenas)

    def _run(self):
        if self.lie == "runs_one_of_many":
            self._arranged[0].run()
        elif self.lie == "keeps_answers":
            self._arranged[0]._memory[:] = 1
        elif self.lie == "answers_first":
            self.leftover = threading.Timer(0.02, super()._run)
            self.leftover.start()
        else:
            return super()._run()
        return launcher.Done()


def main(channel, scratch):
    """As the real launcher."""
    tensors.use_threads()
    overwritten = Overwritten(open_device())
    while True:
        frame = channel.receive()
        channel.send(overwritten.answer(frame.payload, frame.fds).model_dump_json().encode())
