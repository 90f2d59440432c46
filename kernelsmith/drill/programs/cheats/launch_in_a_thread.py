"""Launches its kernel in a thread that it does not wait for, as others use a stream of their own; must not pass."""


def cheat(x):
    import threading
    import time

    y = torch.empty_like(x)

    def work():
        time.sleep(0.002)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)

    threading.Thread(target=work, daemon=True).start()
    return y


def twin(x):
    stream = torch.cuda.current_stream() if x.is_cuda else None
    y = honest(x)
    if stream is not None:
        y.record_stream(stream)
    return y
