"""Another process of the worker's user, which a session must neither reach nor change.

argv: a folder. It first prints its resources as shell assignments. For each line of input it then prints, in one line, everything
that others could have changed.
"""

import ctypes
import os
import resource
import signal
import socket
import sys

OUT = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}[os.uname().machine]
IPC_RMID, IPC_STAT, GETVAL = 0, 2, 12
signals = []
signal.signal(signal.SIGUSR1, lambda *_: signals.append("USR1"))
secret = ctypes.create_string_buffer(b"a secret of the victim's")

segment = libc.shmget(0, 4096, 0o600)
shared = libc.shmat(segment, 0, 0)
ctypes.memmove(shared, b"secret\0", 7)
semaphore = libc.semget(0, 1, 0o600)
messages = libc.msgget(0, 0o600)
queue = f"/ralph-victim-{os.getpid()}".encode()
queue_file = libc.mq_open(queue, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, None)


def listener(address):
    made = socket.socket(socket.AF_UNIX)
    made.bind(address)
    made.listen(100)
    made.setblocking(False)
    return made


listeners = [listener(f"{OUT}/socket"), listener(f"\0ralph-victim-{os.getpid()}")]


def met():
    count = 0
    for there in listeners:
        while True:
            try:
                there.accept()
                count += 1
            except BlockingIOError:
                break
    return count


def state():
    status = open("/proc/self/status").read()
    keys = ("TracerPid", "Cpus_allowed_list", "Uid")
    kept = [line.split() for line in status.splitlines() if line.split(":")[0] in keys]
    counted = ctypes.create_string_buffer(256)
    libc.msgctl(messages, IPC_STAT, counted)
    return [
        kept,
        resource.getrlimit(resource.RLIMIT_FSIZE),
        os.sched_getscheduler(0),
        os.getpriority(os.PRIO_PROCESS, 0),
        libc.syscall(IOPRIO_GET, 1, 0),
        open("/proc/self/oom_score_adj").read().strip(),
        os.uname().nodename,
        ctypes.string_at(shared),
        libc.semctl(semaphore, 0, GETVAL),
        counted.raw[:120].hex(),
        os.fstat(queue_file).st_mode,
        secret.value,
        met(),
        signals,
    ]


print(
    f"VICTIM={os.getpid()} SEGMENT={segment} SEMAPHORE={semaphore} MESSAGES={messages} "
    f"QUEUE={queue.decode()} SECRET_AT={ctypes.addressof(secret)}",
    flush=True,
)
for _ in sys.stdin:
    print(state(), flush=True)
libc.shmctl(segment, IPC_RMID, None)
libc.semctl(semaphore, 0, IPC_RMID)
libc.msgctl(messages, IPC_RMID, None)
libc.mq_unlink(queue)
