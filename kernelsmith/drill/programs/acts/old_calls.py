"""Calls the kernel by its 32-bit doors, which the filter must not forget."""

import ctypes
import mmap
import platform

ENDS = ("answered", "signalled")


def act(stage):
    if platform.machine() != "x86_64":
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(ctypes.c_long(0x40000000 + 41), 1, 1, 0) >= 0:  # socket, by its x32 number
        stage.boasts.append("a socket by the x32 door")
    # push rbx; socket(2, 1, 0) by int 0x80; pop rbx; ret
    code = b"\x53\xb8\x67\x01\0\0\xbb\x02\0\0\0\xb9\x01\0\0\0\x31\xd2\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, 7)
    page.write(code)
    entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if entry() >= 0:
        stage.boasts.append("a socket by the 32-bit door")


def twin(stage):
    if platform.machine() == "x86_64":
        page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, 7)
        page.write(b"\xb8\x07\x00\x00\x00\xc3")
        assert ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() == 7
