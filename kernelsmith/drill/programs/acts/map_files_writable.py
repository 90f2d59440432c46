"""Maps shared files for writing and writes to them through /proc/self/mem; the files must stay as they are."""

import ctypes
import mmap
import os

from kernelsmith.drill.tools import attempt, harmless


def act(stage):
    for path in (os.__file__, stage.canary):
        attempt(stage, f"opened {path} to write", lambda path=path: os.close(os.open(path, os.O_RDWR)))
    file = os.open(os.__file__, os.O_RDONLY)
    attempt(stage, "mapped a library to write", lambda: mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE))
    shared = mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
    view = (ctypes.c_char * 4096).from_buffer_copy(shared)
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    address = library.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file, ctypes.c_long(0))
    harmless(lambda: os.pwrite(os.open("/proc/self/mem", os.O_RDWR), view[:4], address))  # as it was
    return bytes(view[:4]).decode()


def twin(stage):
    with open("mine", "wb") as file:
        file.write(bytes(4096))
    with open("mine", "r+b") as file:
        mmap.mmap(file.fileno(), 4096)[:4] = b"good"
    assert open("mine", "rb").read(4) == b"good"
